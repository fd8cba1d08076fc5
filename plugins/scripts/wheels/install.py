import json
import sys

try:
    from pip._internal.cli.main import main
except ImportError:
    print("ERROR: pip is not installed on this machine; Debian's package python3-pip has it", file=sys.stderr)
    sys.exit(1)

with open("/in/input") as f:
    names = json.load(f)
sys.exit(main(["install", "--no-index", "--find-links", "/wheels", "--only-binary", ":all:", "--no-input", "--no-cache-dir", "--no-compile",
               "--disable-pip-version-check", "--no-warn-script-location", "--quiet", "--target", "/out/site"] + names))
