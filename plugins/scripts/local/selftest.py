import errno, os, socket

found = []


def must_fail(what, do):
    try:
        do()
    except OSError:
        return
    found.append(what)


for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
    must_fail("a socket of family %d" % family, lambda: socket.socket(family, socket.SOCK_DGRAM))
for path in ("/etc/shadow", "/etc/hostname", "/root", "/home", "/var", "/sys", "/run/secrets"):
    if os.path.exists(path):
        found.append(path + " is there")
must_fail("writing to /", lambda: open("/x", "w"))
must_fail("writing to /usr", lambda: open("/usr/x", "w"))
must_fail("unshare", lambda: os.unshare(0x10000000) if hasattr(os, "unshare") else open("/proc/self/ns/none"))
if os.path.isdir("/proc/self"):
    if len([p for p in os.listdir("/proc") if p.isdigit()]) > 5:
        found.append("other processes")
    with open("/proc/self/status") as f:
        status = dict(line.split(":", 1) for line in f)
    if int(status["CapEff"], 16) or int(status["CapPrm"], 16) or int(status["CapBnd"], 16) & 0x200000:
        found.append("capabilities " + status["CapEff"].strip())
    if status["NoNewPrivs"].strip() != "1" or status["Seccomp"].strip() != "2":
        found.append("no filter of system calls")
for name in os.environ:
    if any(word in name for word in ("TOKEN", "SECRET", "KEY", "PASSWORD", "PLUGIN")):
        found.append("the variable " + name)
print("; ".join(found) or "ok")
