"""Run the command line with ``python -m appliance``."""

from appliance.cli.exits import main

if __name__ == "__main__":
    main()
