package sandbox

import (
	"fmt"
	"slices"
	"strings"
)

// The profiles.
const (
	// Strict walls off files, network, signals and sockets but for the floor and
	// what the profile names.
	Strict = "strict"
	// Launcher has no file rules, since mounting is impossible under them; its
	// plugins start process trees and sandbox their own children.
	Launcher = "launcher"
	// None leaves files and network open; the process tree is still owned.
	None = "none"
)

// The networks.
const (
	NetworkNone = "none"
	NetworkAll  = "all"
)

// Access is what a path may be used for.
type Access string

// The kinds of access. Write and Exec include reading.
const (
	Read  Access = "read"
	Write Access = "write"
	Exec  Access = "exec"
)

// Path is one file or folder a strict plugin may use, with all below it.
type Path struct {
	Path   string // absolute
	Access Access
	Must   bool // named by the operator: missing is an error
	Asked  bool // by the plugin itself: opens nothing that is hidden
}

// Profile is everything asked of one sandbox.
type Profile struct {
	Plugin  string // for messages
	Name    string // strict | launcher | none; empty = strict
	Network string // none | all; empty = none under strict, else all
	Paths   []Path // beside the floor
	// Hide is what belongs to the host: under strict and launcher nothing of it is
	// seen but what Paths name in it.
	Hide []string

	Memory    int64 // bytes of data segment (RLIMIT_DATA); 0 = no limit
	Processes int   // processes and threads; 0 = no limit
	Files     int   // open files; 0 = 4096
	FileSize  int64 // bytes of the largest file it may write; 0 = no limit

	// What the config asked for by name: if it can't be had, the start fails.
	MustProfile, MustNetwork bool

	// NoNamespaces goes on as if the machine allowed none.
	NoNamespaces bool
}

func (p Profile) normal() (Profile, error) {
	if p.Name == "" {
		p.Name = Strict
	}
	if p.Network == "" {
		p.Network = NetworkAll
		if p.Name == Strict {
			p.Network = NetworkNone
		}
	}
	if p.Files == 0 {
		p.Files = 4096
	}
	if !slices.Contains([]string{Strict, Launcher, None}, p.Name) {
		return p, fmt.Errorf("sandbox profile %q is not strict, launcher or none", p.Name)
	}
	if p.Network != NetworkNone && p.Network != NetworkAll {
		return p, fmt.Errorf("sandbox network %q is not none or all", p.Network)
	}
	return p, nil
}

// Report says what is in force for one running plugin.
type Report struct {
	Profile string   `json:"profile"`
	Network string   `json:"network"`
	InForce []string `json:"in_force"`
	// Missing is what the profile asked for by default and the machine can't give.
	Missing []string `json:"missing,omitempty"`
}

// String is the report on one line.
func (r Report) String() string {
	s := r.Profile + ": " + strings.Join(r.InForce, ", ")
	if len(r.Missing) > 0 {
		s += "; missing: " + strings.Join(r.Missing, ", ")
	}
	return s
}

func (r *Report) has(format string, args ...any) {
	r.InForce = append(r.InForce, fmt.Sprintf(format, args...))
}
func (r *Report) lacks(format string, args ...any) {
	r.Missing = append(r.Missing, fmt.Sprintf(format, args...))
}
