"""The steps, a module for each subject."""
