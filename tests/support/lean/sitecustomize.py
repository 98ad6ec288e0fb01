"""Let Spark's Python workers import pyspark as it is installed, with its bytecode.

Spark puts an archive of pyspark first on the path.  Each worker would compile what it imports from the archive.  On a
busy machine, that took longer than the ten seconds for which Spark waits.
"""

import sys

sys.path[:] = [path for path in sys.path if not path.endswith("/pyspark.zip")]
