package scripts

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bulkhead-dev/bulkhead/plugins/scripts/run"
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/wheels"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// settings of the plugin, as in its config block.
type settings struct {
	Runner    string       `hcl:"runner,optional" doc:"Where scripts run: local (namespaces of this machine), container, kubernetes, or auto: kubernetes inside a cluster, else local, else container if a socket is set."`
	Socket    string       `hcl:"socket,optional" bulkhead:"path=read" doc:"Socket of a Docker or Podman engine."`
	Image     string       `hcl:"image,optional" doc:"Image of containers and pods."`
	Namespace string       `hcl:"namespace,optional" doc:"Namespace of the pods."`
	Kubeconf  string       `hcl:"kubeconfig,optional" bulkhead:"path=read" doc:"How the cluster is reached; inside of one it is not needed."`
	CPU       string       `hcl:"cpu,optional" doc:"Processor time of a container or pod, as Kubernetes writes it."`
	Languages []string     `hcl:"languages,optional" doc:"What may be run: python, javascript, shell."`
	Timeout   sdk.Duration `hcl:"timeout,optional" doc:"Time of a script that names none."`
	Memory    sdk.Size     `hcl:"memory,optional" doc:"Memory of a script and all its processes."`
	Disk      sdk.Size     `hcl:"disk,optional" doc:"Bytes of /tmp, and again of /out."`
	Output    sdk.Size     `hcl:"output,optional" doc:"Bytes kept of what a script prints, of each stream."`
	Processes int          `hcl:"processes,optional" doc:"Processes and threads of a script."`
	Runs      int          `hcl:"runs,optional" doc:"Scripts that run at a time; others wait."`
	Wheels    string       `hcl:"wheelhouse,optional" bulkhead:"path=read" doc:"Folder of wheels that pip_packages are installed from."`
	Index     string       `hcl:"index,optional" doc:"Address of a package index that pip_packages are installed from."`
	Hosts     []string     `hcl:"index_hosts,optional" doc:"Hosts of the index's files, if it is another one."`
	NoWalls   bool         `hcl:"allow_unsandboxed,optional" doc:"Run scripts without a sandbox where none can be had; every result says so."`
	Warm      int          `hcl:"warm,optional" doc:"Sandboxes kept ready."`
}

func defaults() settings {
	return settings{Runner: "auto", Image: "python:3.12-slim", Namespace: "bulkhead-scripts", CPU: "500m", Languages: []string{run.Python}, Timeout: sdk.Duration(30 * time.Second), Memory: 256 << 20, Disk: 64 << 20, Output: 64 << 10, Processes: 32, Runs: 4, Warm: 2}
}

// installs says whether packages can be installed.
func (s *settings) installs() bool { return s.Wheels != "" || s.Index != "" }

// longest is what a script may ask for.
const longest = 300 * time.Second

var programs = map[string][]string{
	run.Python:     {"/usr/bin/python3"},
	run.JavaScript: {"/usr/bin/node", "/usr/bin/nodejs"},
	run.Shell:      {"/bin/sh"},
}

func validate(_ context.Context, s *settings) sdk.Diagnostics {
	var d sdk.Diagnostics
	if !slices.Contains([]string{"auto", "local", "container", "kubernetes"}, s.Runner) {
		d.Errorf(sdk.Attr("runner"), "auto, local, container or kubernetes is wanted here, not %q", s.Runner)
	}
	if cpu, err := resource.ParseQuantity(s.CPU); err != nil || cpu.Sign() <= 0 {
		d.Errorf(sdk.Attr("cpu"), "an amount such as 500m or 2 is wanted here, not %q", s.CPU)
	}
	if s.Image == "" || strings.ContainsAny(s.Image, " \t\n") {
		d.Errorf(sdk.Attr("image"), "the name of an image is wanted here, not %q", s.Image)
	}
	for _, wrong := range validation.IsDNS1123Label(s.Namespace) {
		d.Errorf(sdk.Attr("namespace"), "%s", wrong)
	}
	if s.Runner == "container" && s.Socket == "" {
		d.Errorf(sdk.Attr("runner"), "the engine's socket is wanted, too, such as socket = \"/run/docker.sock\" or \"/run/podman/podman.sock\"")
	}
	elsewhere := s.Runner == "container" || s.Runner == "kubernetes"
	if elsewhere && (len(s.Languages) != 1 || s.Languages[0] != run.Python) {
		d.Errorf(sdk.Attr("runner"), "the image has python only: languages can't be set beside it")
	}
	if s.Runner == "kubernetes" && s.installs() {
		d.Errorf(sdk.Attr("runner"), "in a cluster scripts have what the image has: no wheelhouse or index can be set beside it")
	}
	if s.Index != "" {
		if _, err := wheels.ParseIndex(s.Index, s.Hosts); err != nil {
			d.Errorf(sdk.Attr("index"), "%s", err)
		}
	} else if len(s.Hosts) > 0 {
		d.Errorf(sdk.Attr("index_hosts"), "index is wanted, too")
	}
	if len(s.Languages) == 0 {
		d.Errorf(sdk.Attr("languages"), "at least one of python, javascript and shell is wanted here")
	}
	for i, l := range s.Languages {
		if programs[l] == nil || slices.Index(s.Languages, l) < i {
			d.Errorf(sdk.Attr("languages").Index(i), "python, javascript or shell is wanted here, each once, not %q", l)
		}
	}
	if t := s.Timeout.Std(); t < time.Second || t > longest {
		d.Errorf(sdk.Attr("timeout"), "a time from 1s to %s is wanted here, not %s", longest, t)
	}
	size := func(name string, v, least, most sdk.Size) {
		if v < least || v > most {
			d.Errorf(sdk.Attr(name), "a size from %s to %s is wanted here, not %s", least, most, v)
		}
	}
	size("memory", s.Memory, 64<<20, 64<<30)
	size("disk", s.Disk, 1<<20, 16<<30)
	size("output", s.Output, 1<<10, 1<<20)
	number := func(name string, v, least, most int) {
		if v < least || v > most {
			d.Errorf(sdk.Attr(name), "a number from %d to %d is wanted here, not %d", least, most, v)
		}
	}
	number("processes", s.Processes, 8, 1000)
	number("runs", s.Runs, 1, 64)
	number("warm", s.Warm, 0, 16)
	return d
}
