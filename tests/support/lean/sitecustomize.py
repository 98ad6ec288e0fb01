"""Let Spark's Python workers import pyspark as it is installed, with its bytecode.

Spark puts an archive of pyspark first on the path.  Each worker would compile what it imports from the archive.  On a
busy machine, that took longer than the ten seconds for which Spark waits.

With KRAFT_TEST_PORTABLE=1, take away what only Linux has.
"""

import os
import sys

sys.path[:] = [path for path in sys.path if not path.endswith("/pyspark.zip")]

if os.environ.get("KRAFT_TEST_PORTABLE") == "1":
    from harness import portable

    portable.take_away()
