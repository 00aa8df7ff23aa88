"""What the flex template's launcher runs: submits one evaluation to Dataflow and leaves."""

import sys

from evalbeam.pipelines.cli.flex_template import main

if __name__ == "__main__":
    sys.exit(main())
