# SPDX-License-Identifier: Apache-2.0
"""`python -m posttrain`, the same as the `posttrain` command."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        # `-m` puts the working directory in front of everything, where a local file would hide an installed module.
        del sys.path[0]
    from posttrain.cli import main

    main()
