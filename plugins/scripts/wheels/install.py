import json
import os
import socket
import sys

try:
    from pip._internal.cli.main import main
except ImportError:
    print("ERROR: pip is not installed here; Debian's package python3-pip has it", file=sys.stderr)
    sys.exit(1)

with open("/in/input") as f:
    job = json.load(f)
source = ["--no-index"]
if job["index"]:
    # There is no network. What stands at the end of this socket connects to the index,
    # and to nothing else; encryption goes on between pip and the index.
    def connect(address, *rest, **named):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(60)
        s.connect("/run/index.sock")
        s.sendall(("%s %d\n" % address[:2]).encode())
        said = b""
        while not said.endswith(b"\n"):
            more = s.recv(1)
            if not more:
                break
            said += more
        if said != b"ok\n":
            print("ERROR: " + said.decode().strip(), file=sys.stderr)
            raise OSError(said.decode().strip())
        return s

    from pip._vendor.urllib3.util import connection

    connection.create_connection = connect
    source = ["--index-url", job["index"], "--retries", "1"]
if os.path.isdir("/wheels"):
    source += ["--find-links", "/wheels"]
sys.exit(main(["install", *source, "--only-binary", ":all:", "--no-input", "--no-cache-dir", "--no-compile",
               "--disable-pip-version-check", "--no-warn-script-location", "--quiet", "--target", "/out/site", *job["names"]]))
