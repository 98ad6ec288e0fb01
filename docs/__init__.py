"""What makes the pages of this folder: their generated parts, and the site."""
