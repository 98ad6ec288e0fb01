"""Let Spark's Python workers import pyspark as it is installed, with its bytecode.

Spark puts an archive of it in front, and each worker would compile what it imports from there: three quarters of its
start, and on a busy machine more than the ten seconds that Spark waits for it.
"""

import sys

sys.path[:] = [path for path in sys.path if not path.endswith("/pyspark.zip")]
