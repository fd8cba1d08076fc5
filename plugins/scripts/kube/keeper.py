import base64, json, os, resource, signal, subprocess, sys, threading, time

lock = threading.Lock()


def tell(**what):
    with lock:
        sys.__stdout__.write(json.dumps(what) + "\n")
        sys.__stdout__.flush()


def gather(name):
    text = "".join(os.environ.pop("%s_%d" % (name, i)) for i in range(int(os.environ.pop(name + "_PARTS"))))
    return base64.b64decode(text)


def pass_on(stream, key, keep, flood, kill):
    kept = total = 0
    while True:
        text = os.read(stream.fileno(), 65536)
        if not text:
            return
        total += len(text)
        part = text[: max(keep - kept, 0)]
        if part:
            kept += len(part)
            tell(stream=key, text=base64.b64encode(part).decode())
        if total > flood:
            kill("output")
            return


def files(most, room):
    lost = ""
    for folder, folders, names in os.walk("/out"):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            try:
                fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            except OSError:
                continue
            with os.fdopen(fd, "rb") as f:
                s = os.fstat(f.fileno())
                if s.st_mode & 0o170000 != 0o100000:
                    continue
                if most == 0 or s.st_size > room:
                    return "more than is sent through the log"
                data = f.read(s.st_size)
            most -= 1
            room -= len(data)
            tell(file=os.path.relpath(path, "/out"), size=len(data))
            for i in range(0, len(data), 48000):
                tell(data=base64.b64encode(data[i : i + 48000]).decode())
    return lost


def main():
    order = json.loads(os.environ.pop("BULKHEAD_ORDER"))
    script, data = gather("BULKHEAD_SCRIPT"), gather("BULKHEAD_DATA")
    with open("/in/input", "wb") as f:
        f.write(data)
    name = "/in/script.py"
    with open(name, "wb") as f:
        f.write(script)
    env = {k: os.environ[k] for k in ("PATH", "LANG", "PYTHONPATH", "HOSTNAME") if k in os.environ}
    small = data.decode("utf-8", "surrogateescape") if len(data) <= order["env"] and b"\0" not in data else ""
    env.update(HOME="/tmp", TMPDIR="/tmp", MPLBACKEND="Agg", MPLCONFIGDIR="/tmp", PYTHONDONTWRITEBYTECODE="1", BULKHEAD_INPUT=small, ROCKBOT_INPUT=small)
    begun = time.monotonic()
    p = subprocess.Popen([sys.executable, "-u", name], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/out", env=env, start_new_session=True)
    cause = []

    def kill(why):
        cause.append(why)
        try:
            os.killpg(p.pid, signal.SIGKILL)
        except OSError:
            pass

    readers = [threading.Thread(target=pass_on, args=(s, k, order["keep"], order["flood"], kill), daemon=True) for s, k in ((p.stdout, "out"), (p.stderr, "err"))]
    for r in readers:
        r.start()
    tell(running=True)
    timer = threading.Timer(order["seconds"], kill, ("timeout",))
    timer.start()
    code = p.wait()
    timer.cancel()
    for r in readers:
        r.join(2)
    wall = time.monotonic() - begun
    lost = files(order["files"], order["bytes"])
    tell(end=cause[0] if cause else "exited", exit=code, wall=wall, memory=resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, lost=lost)


main()
os._exit(0)
