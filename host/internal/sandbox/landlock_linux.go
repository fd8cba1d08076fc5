package sandbox

import (
	"fmt"
	"os"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// What each kind of access means to Landlock.
const (
	rightsRead  = ll.AccessFSReadFile | ll.AccessFSReadDir
	rightsExec  = rightsRead | ll.AccessFSExecute
	rightsWrite = rightsRead | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile |
		ll.AccessFSMakeDir | ll.AccessFSMakeReg | ll.AccessFSMakeSock | ll.AccessFSMakeFifo | ll.AccessFSMakeSym |
		ll.AccessFSResolveUnix
	rightsOfFile = ll.AccessFSExecute | ll.AccessFSWriteFile | ll.AccessFSReadFile | ll.AccessFSTruncate | ll.AccessFSResolveUnix
)

// landlock walls off files under strict, and signals and abstract sockets under
// strict and launcher. It binds this thread and what it execs.
func (o order) landlock(r *Report) error {
	if o.Profile.Name == None {
		return nil
	}
	abi, err := ll.LandlockGetABIVersion()
	if err != nil || abi < 1 {
		if o.Profile.MustProfile && o.Profile.Name == Strict && !o.Rooted {
			return refused("profile = \"strict\": this kernel has neither Landlock nor a mount namespace for us")
		}
		r.lacks("Landlock")
		return nil
	}
	full := landlock.V11
	config := landlock.Config{Scoped: full.Scoped}
	var rules []landlock.Rule
	if o.Profile.Name == Strict {
		config.HandledAccessFS = full.HandledAccessFS
		rules = o.rules(abi)
	}
	fd, flags, err := config.BestEffort().NewRulesetFD(rules...)
	if err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	if fd < 0 {
		r.lacks("signals and abstract sockets closed by Landlock (ABI %d)", abi)
		return nil
	}
	defer unix.Close(fd)
	if err := ll.LandlockRestrictSelf(fd, flags); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	if o.Profile.Name == Strict {
		r.has("files by Landlock ABI %d", abi)
	}
	if o.Profile.Name == Strict && !o.Rooted && abi < 9 {
		r.lacks("unix sockets of others closed by path (Landlock ABI %d, no root of its own)", abi)
	}
	if abi >= 6 {
		r.has("signals and abstract sockets closed (Landlock scope)")
	} else if !o.NS.PID {
		r.lacks("signals to the host closed (Landlock ABI %d)", abi)
	}
	return nil
}

func (o order) rules(abi int) []landlock.Rule {
	var rules []landlock.Rule
	for _, p := range o.paths() {
		info, err := os.Stat(p.Path)
		if err != nil {
			continue
		}
		var rights landlock.AccessFSSet
		switch p.Access {
		case Exec:
			rights = rightsExec
		case Write:
			rights = rightsWrite
		default:
			rights = rightsRead
		}
		if !info.IsDir() {
			rights &= rightsOfFile
		}
		rule := landlock.PathAccess(rights, p.Path)
		if info.IsDir() && p.Access == Write && abi >= 2 {
			rule = rule.WithRefer()
		}
		rules = append(rules, rule)
	}
	proc := "/proc/self"
	if o.NS.Mount && o.NS.PID {
		proc = "/proc" // shows nothing but the plugin's own processes
	}
	return append(rules, landlock.PathAccess(rightsRead, proc))
}
