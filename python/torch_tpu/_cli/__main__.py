import sys

from torch_tpu._cli import main

sys.exit(main())
