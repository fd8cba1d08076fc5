import base64, json, os, resource, signal, subprocess, sys, threading, time

lock = threading.Lock()


def tell(**what):
    with lock:
        sys.__stdout__.write(json.dumps(what) + "\n")
        sys.__stdout__.flush()


def hide():
    # A script has the keeper's user: what can't be dumped it can't look into either.
    try:
        import ctypes

        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        pass


def gather(name):
    text = "".join(os.environ.pop("%s_%d" % (name, i)) for i in range(int(os.environ.pop(name + "_PARTS"))))
    return base64.b64decode(text)


def orders():
    if "BULKHEAD_ORDER" in os.environ:
        return json.loads(os.environ.pop("BULKHEAD_ORDER")), gather("BULKHEAD_SCRIPT"), gather("BULKHEAD_DATA"), False
    f = sys.stdin.buffer
    order = json.loads(f.readline())
    return order, f.read(order["script"]), f.read(order["input"]), True


def pass_on(stream, key, keep, flood, kill):
    kept = total = 0
    while True:
        text = os.read(stream, 65536)
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
    count, size = most, room
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
                if most == 0:
                    return "there are more than %d files" % count
                if s.st_size > room:
                    return "there are more than %d bytes" % size
                data = f.read(s.st_size)
            most -= 1
            room -= len(data)
            tell(file=os.path.relpath(path, "/out"), size=len(data))
            for i in range(0, len(data), 48000):
                tell(data=base64.b64encode(data[i : i + 48000]).decode())
    return ""


def number(*names):
    # A number of this container's group, or the one that stands after a word.
    for name, word in names:
        try:
            with open("/sys/fs/cgroup/" + name) as f:
                for line in f:
                    if line.startswith(word):
                        return int(line[len(word) :])
        except (OSError, ValueError):
            pass
    return 0


def ended_for_memory():
    return number(("memory.events", "oom_kill "), ("memory/memory.oom_control", "oom_kill "))


def peak():
    most = number(("memory.peak", ""), ("memory/memory.max_usage_in_bytes", ""))
    return most or resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def first_to_go():
    # When memory ends it is the script that goes, not the keeper.
    try:
        with open("/proc/self/oom_score_adj", "w") as f:
            f.write("1000")
    except OSError:
        pass



def main():
    hide()
    order, script, data, heard = orders()
    with open("/in/input", "wb") as f:
        f.write(data)
    name = "/in/script.py"
    with open(name, "wb") as f:
        f.write(script)
    env = {k: os.environ[k] for k in ("PATH", "LANG", "HOSTNAME") if k in os.environ}
    small = data.decode("utf-8", "surrogateescape") if len(data) <= order["env"] and b"\0" not in data else ""
    env.update(HOME="/tmp", TMPDIR="/tmp", MPLBACKEND="Agg", MPLCONFIGDIR="/tmp", PYTHONDONTWRITEBYTECODE="1", BULKHEAD_INPUT=small, ROCKBOT_INPUT=small)
    if os.path.isdir("/shared"):
        env.update(BULKHEAD_SHARED="/shared", ROCKBOT_SHARED_PATH="/shared")
    if os.path.isdir("/deps"):
        env["PYTHONPATH"] = "/deps"
    before = ended_for_memory()
    p = None
    cause = []

    def kill(why):
        cause.append(why)
        end_all()

    def end_all():
        try:
            if os.getpid() == 1:
                os.kill(-1, signal.SIGKILL)
            elif p is not None:
                os.killpg(p.pid, signal.SIGKILL)
        except OSError:
            pass

    def listen():
        # Nothing more is said; when this ends, nobody waits any more.
        while sys.stdin.buffer.read(1):
            pass
        os._exit(1)

    def watch():
        # The kernel ends one process for memory; the others would go on without it.
        while not ended.wait(0.1):
            if ended_for_memory() > before:
                kill("memory")
                return

    ended = threading.Event()
    threading.Thread(target=watch, daemon=True).start()
    if heard:
        threading.Thread(target=listen, daemon=True).start()
    # All threads are there before the script is: it may leave no room for any.
    pipes = [os.pipe(), os.pipe()]
    readers = [threading.Thread(target=pass_on, args=(r, k, order["keep"], order["flood"], kill), daemon=True) for (r, _), k in zip(pipes, ("out", "err"))]
    for r in readers:
        r.start()
    timer = threading.Timer(order["seconds"], kill, ("timeout",))
    timer.daemon = True
    timer.start()
    begun = time.monotonic()
    p = subprocess.Popen([sys.executable, "-u", "-c", MAIN, name], stdin=subprocess.DEVNULL, stdout=pipes[0][1], stderr=pipes[1][1], cwd="/out", env=env, start_new_session=True, preexec_fn=first_to_go)
    for _, w in pipes:
        os.close(w)
    tell(running=True)
    code = p.wait()
    timer.cancel()
    ended.set()
    end_all()
    for r in readers:
        r.join(2)
    wall = time.monotonic() - begun
    if not cause and code == -9 and ended_for_memory() > before:
        cause.append("memory")
    lost = files(order["files"], order["bytes"])
    tell(end=cause[0] if cause else "exited", exit=code, wall=wall, memory=peak(), lost=lost)


main()
os._exit(0)
