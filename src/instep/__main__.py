"""`python -m instep`: the command."""

import sys

from instep.cli import main

sys.exit(main())
