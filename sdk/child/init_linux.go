package child

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Init turns a process that was started as one of the package's copies into it;
// in every other it does nothing. Call it first in main, and in TestMain.
func Init() {
	if len(os.Args) == 0 {
		return
	}
	switch os.Args[0] {
	case initName:
		runtime.LockOSThread()
		os.Exit(beInit())
	case execName:
		runtime.LockOSThread()
		os.Exit(beProgram())
	}
}

// ready is what the second copy says once it is loaded.
const ready = '+'

// The descriptors of an init: the order comes on 3, reports go to 4.
const (
	orderFD  = 3
	reportFD = 4
	filesFD  = 5
)

func beInit() int {
	out := os.NewFile(reportFD, "report")
	unix.CloseOnExec(reportFD)
	tell := func(r report) {
		raw, err := json.Marshal(r)
		if err == nil {
			_, _ = out.Write(append(raw, '\n')) // nobody is left to tell when this fails
		}
	}
	in := os.NewFile(orderFD, "order")
	var o order
	if err := json.NewDecoder(io.LimitReader(in, 8<<20)).Decode(&o); err != nil {
		return 1 // the parent is gone
	}
	in.Close()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCHLD)
	if o.Spec.NoNamespaces {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			tell(report{Error: "keeping the tree together: " + err.Error()})
			return 1
		}
	}
	main, errR, err := startProgram(o)
	if err == nil {
		err = errors.Join(readError(errR), nil)
	}
	if err != nil {
		tell(report{Error: err.Error()})
		killDescendants()
		return 1
	}
	tell(report{Started: true})
	status := reapUntil(main, signals)
	r := report{Ended: true, Code: status.ExitStatus()}
	if status.Signaled() {
		r.Code, r.Signal = -1, int(status.Signal())
	}
	if o.Spec.NoNamespaces {
		killDescendants()
	}
	tell(r)
	return 0 // with PID 1 the kernel ends what is left of the tree
}

// startProgram runs the second copy while the binary can still be reached, then
// builds the walls around both, then lets it go on.
func startProgram(o order) (pid int, errR *os.File, err error) {
	orderR, orderW, err := os.Pipe()
	if err != nil {
		return 0, nil, err
	}
	defer orderW.Close()
	defer orderR.Close()
	errR, errW, err := os.Pipe()
	if err != nil {
		return 0, nil, err
	}
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr, orderR, errW}
	for i := range o.Files {
		files = append(files, os.NewFile(uintptr(filesFD+i), "extra"))
	}
	nothing := len(o.Spec.Args) > 0 && o.Spec.Args[0] == nothingName
	p, err := os.StartProcess("/proc/self/exe", []string{execName}, &os.ProcAttr{
		Env: []string{}, Files: files, Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	errW.Close()
	for _, f := range files[5:] {
		f.Close() // the program's alone: who waits for their end waits for the program's
	}
	if err != nil {
		return 0, nil, fmt.Errorf("second start: %w", err)
	}
	_ = errR.SetReadDeadline(time.Now().Add(startTime)) // pipes take deadlines
	if n, err := errR.Read(make([]byte, 1)); n != 1 {
		return 0, nil, fmt.Errorf("second start: %w", err)
	}
	if !o.Spec.NoNamespaces {
		if err := o.walls(); err != nil {
			return 0, nil, err
		}
	}
	if nothing {
		o.Spec.Path = ""
	}
	if err := json.NewEncoder(orderW).Encode(o); err != nil {
		return 0, nil, err
	}
	return p.Pid, errR, nil
}

// readError waits until the second copy has become the program, which closes the
// pipe, or tells why not.
func readError(r *os.File) error {
	defer r.Close()
	_ = r.SetReadDeadline(time.Now().Add(startTime)) // pipes take deadlines
	raw, err := io.ReadAll(io.LimitReader(r, 64<<10))
	if err == nil && len(raw) > 0 {
		err = errors.New(strings.TrimSpace(string(raw)))
	}
	return err
}

// reapUntil passes signals to the program's group and reaps every child until the
// program itself has ended.
func reapUntil(main int, signals <-chan os.Signal) syscall.WaitStatus {
	var again <-chan time.Time // set once the parent wants an end now
	for {
		for {
			var status syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
			if pid == main && (status.Exited() || status.Signaled()) {
				return status
			}
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if err != nil || pid <= 0 {
				break
			}
		}
		select {
		case s := <-signals:
			switch s {
			case syscall.SIGCHLD:
			case syscall.SIGUSR1:
				killOnce()
				again = time.After(pollTime)
			default:
				_ = unix.Kill(-main, s.(syscall.Signal)) // it may just have ended
			}
		case <-again:
			killOnce()
			again = time.After(pollTime)
		}
	}
}

// killDescendants kills all below this process, those that left the group or the
// session included: they become children of the subreaper as their parents die.
func killDescendants() {
	for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); {
		if killOnce() == 0 {
			return
		}
		for {
			var status syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
			if pid <= 0 || err != nil {
				break
			}
		}
		time.Sleep(pollTime)
	}
}

// killOnce kills what is below this process now and says how many that were.
func killOnce() int {
	all := descendants(os.Getpid())
	for _, pid := range all {
		_ = unix.Kill(pid, unix.SIGKILL) // it may just have ended
	}
	return len(all)
}

func descendants(pid int) []int {
	var all []int
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil
	}
	for _, t := range tasks {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, t.Name()))
		if err != nil {
			continue
		}
		for _, field := range strings.Fields(string(raw)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(append(all, child), descendants(child)...)
			}
		}
	}
	return all
}
