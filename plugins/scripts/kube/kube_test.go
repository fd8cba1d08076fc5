//go:build linux

package kube

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/bulkhead-dev/bulkhead/plugins/scripts/alive"
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/run"
	"github.com/bulkhead-dev/bulkhead/sdk/child"
)

// shipped are the objects of the manifests, each read strictly as what it says it is.
func shipped(t *testing.T) map[string]any {
	t.Helper()
	raw, err := os.ReadFile("manifests/scripts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	docs := yaml.NewYAMLReader(newReader(raw))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		object, kind, err := scheme.Codecs.UniversalDeserializer().Decode(doc, nil, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		strict := object.DeepCopyObject()
		if err := yaml.UnmarshalStrict(doc, strict); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		out[kind.Kind] = object
	}
}

func shippedRole(t *testing.T) rbacv1.Role {
	t.Helper()
	role, ok := shipped(t)["Role"].(*rbacv1.Role)
	if !ok {
		t.Fatal("the manifests have no role")
	}
	return *role
}

func TestManifests(t *testing.T) {
	all := shipped(t)
	for _, kind := range []string{"Namespace", "ServiceAccount", "Role", "RoleBinding", "NetworkPolicy", "ResourceQuota"} {
		if all[kind] == nil {
			t.Errorf("there is no %s", kind)
		}
	}
	p, ok := all["NetworkPolicy"].(*networkingv1.NetworkPolicy)
	if !ok || p.Spec.PodSelector.MatchLabels[nameLabel] != podName || len(p.Spec.PolicyTypes) != 2 || len(p.Spec.Egress)+len(p.Spec.Ingress) != 0 {
		t.Errorf("%+v", p)
	}
}

func mark(t *testing.T) *alive.Mark {
	t.Helper()
	m, err := alive.Here(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func options(t *testing.T, c *cluster) Options {
	t.Helper()
	return Options{Mark: mark(t), Config: c.config(), Namespace: c.role.Namespace, Image: "python:3.12-slim", CPU: resource.MustParse("500m"), Owner: "host-1", Log: slog.New(slog.DiscardHandler),
		Limits: run.Limits{Memory: 256 << 20, Processes: 32, Disk: 16 << 20, Output: 64 << 10}}
}

func runner(t *testing.T, change func(*cluster)) (*Runner, *cluster) {
	t.Helper()
	if s := child.Probe(t.Context()); !s.Namespaces {
		t.Skipf("NOT RUN kubernetes: no namespaces for the test's kubelet: %s", s.Reason)
	}
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("NOT RUN kubernetes: /usr/bin/python3 is not installed")
	}
	c := newCluster(t)
	if change != nil {
		change(c)
	}
	r, err := New(t.Context(), options(t, c))
	if err != nil {
		t.Fatal(err)
	}
	return r, c
}

func python(t *testing.T, r *Runner, script string, more ...func(*run.Spec)) (run.Result, error) {
	t.Helper()
	s := run.Spec{Language: run.Python, Script: []byte(script), Timeout: 30 * time.Second}
	for _, m := range more {
		m(&s)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return r.Run(ctx, s)
}

// clean says that no pod is left.
func clean(t *testing.T, c *cluster) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pods) != 0 || len(c.denied) != 0 {
		t.Errorf("%d pods are left; refused: %v", len(c.pods), c.denied)
	}
}

// The suite is what every cluster must pass.
func suite(t *testing.T, r *Runner) {
	got, err := python(t, r, "import os, sys\nprint(os.environ['BULKHEAD_INPUT'], open('/in/input').read())\nprint('err', file=sys.stderr)\nopen('/out/a.bin', 'wb').write(bytes(range(256)) * 500)\nos.makedirs('/out/d'); open('/out/d/b', 'w').write('')", func(s *run.Spec) { s.Input = []byte("héllo") })
	if err != nil || got.Cause != run.Exited || got.Exit != 0 || string(got.Stdout) != "héllo héllo\n" || string(got.Stderr) != "err\n" {
		t.Fatalf("%+v %s %s %v", got, got.Stdout, got.Stderr, err)
	}
	if len(got.Files) != 2 || got.Files[0].Name != "a.bin" || !bytes.Equal(got.Files[0].Data, bytes.Repeat(all256(), 500)) || got.Files[1].Name != "d/b" {
		t.Errorf("%d files", len(got.Files))
	}
	if got.Wall <= 0 || got.PeakMemory < 1<<20 {
		t.Errorf("%s %d", got.Wall, got.PeakMemory)
	}
	if got, err = python(t, r, "raise ValueError('no')"); err != nil || got.Exit != 1 || !strings.Contains(string(got.Stderr), "ValueError: no") {
		t.Errorf("%+v %v", got, err)
	}
	if got, err = python(t, r, "import os; os.kill(os.getpid(), 9)"); err != nil || got.Exit != -9 || got.Cause != run.Exited {
		t.Errorf("%+v %v", got, err)
	}
	if got, err = python(t, r, "print('on', flush=True)\nwhile True: pass", func(s *run.Spec) { s.Timeout = 2 * time.Second }); err != nil || got.Cause != run.Timeout || string(got.Stdout) != "on\n" {
		t.Errorf("%+v %v", got, err)
	}
	if got, err = python(t, r, "import os\nwhile True: os.write(1, b'x' * 65536)"); err != nil || got.Cause != run.Output || len(got.Stdout) != 64<<10 || !got.StdoutCut {
		t.Errorf("%s %d %v", got.Cause, len(got.Stdout), err)
	}
	if got, err = python(t, r, "import os\nos.symlink('/etc/passwd', '/out/l'); os.mkfifo('/out/f'); open('/out/ok', 'w').write('1')\nprint(os.access('/usr', os.W_OK), os.getuid() != 0)"); err != nil || len(got.Files) != 1 || string(got.Stdout) != "False True\n" {
		t.Errorf("%+v %s %v", got.Files, got.Stdout, err)
	}
	big := strings.Repeat("z", 300_000)
	if got, err = python(t, r, "import os\nprint(len(os.environ['BULKHEAD_INPUT']), len(open('/in/input').read()))", func(s *run.Spec) { s.Input = []byte(big) }); err != nil || string(got.Stdout) != "0 300000\n" {
		t.Errorf("%+v %s %s %v", got, got.Stdout, got.Stderr, err)
	}
	var large *TooLargeError
	if _, err = python(t, r, "pass", func(s *run.Spec) { s.Input = make([]byte, 1<<20) }); !errors.As(err, &large) {
		t.Errorf("%v", err)
	}
}

func all256() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func TestSuite(t *testing.T) {
	r, c := runner(t, nil)
	suite(t, r)
	clean(t, c)
}

// The same against a cluster of the user's.
func TestRealCluster(t *testing.T) {
	file := os.Getenv("KUBECONFIG")
	if file == "" {
		t.Skip("NOT RUN kubernetes: KUBECONFIG names no real cluster")
	}
	conf, err := Config(file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(t.Context(), Options{Mark: mark(t), Config: conf, Namespace: "bulkhead-scripts", Image: "python:3.12-slim", CPU: resource.MustParse("500m"), Owner: "bulkhead-test", Log: slog.New(slog.DiscardHandler),
		Limits: run.Limits{Memory: 256 << 20, Processes: 32, Disk: 16 << 20, Output: 64 << 10}})
	if err != nil {
		t.Fatal(err)
	}
	suite(t, r)
	api, err := kubernetes.NewForConfig(conf)
	if err != nil {
		t.Fatal(err)
	}
	left, err := api.CoreV1().Pods("bulkhead-scripts").List(t.Context(), metav1.ListOptions{LabelSelector: ownerLabel + "=bulkhead-test"})
	if err != nil || len(left.Items) != 0 {
		t.Errorf("%d pods are left, %v", len(left.Items), err)
	}
}

func TestThePod(t *testing.T) {
	r, c := runner(t, nil)
	p, err := r.pod("x", run.Spec{Script: []byte("pass"), Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	s, k := p.Spec, p.Spec.Containers[0]
	if *s.AutomountServiceAccountToken || *s.EnableServiceLinks || !*s.SecurityContext.RunAsNonRoot || s.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault ||
		s.RestartPolicy != corev1.RestartPolicyNever || *s.ActiveDeadlineSeconds < 30 || s.HostNetwork || s.HostPID {
		t.Errorf("%+v", s)
	}
	if *k.SecurityContext.AllowPrivilegeEscalation || !*k.SecurityContext.ReadOnlyRootFilesystem || k.SecurityContext.Capabilities.Drop[0] != "ALL" ||
		k.Resources.Limits.Cpu().String() != "500m" || k.Resources.Limits.Memory().String() != "256Mi" || k.Image != "python:3.12-slim" {
		t.Errorf("%+v", k)
	}
	clean(t, c)
}

// What goes wrong in a cluster costs a script nothing, or is told in its words.
func TestFaults(t *testing.T) {
	const script = "print('done')"
	for name, row := range map[string]struct {
		set  func(*cluster)
		want string // in the error; empty = the script is run
	}{
		"a name is taken": {func(c *cluster) {
			c.faults = []fault{{"create", 409, metav1.StatusReasonAlreadyExists, "already exists", 0}}
		}, ""},
		"too much to do, at first": {func(c *cluster) {
			c.faults = []fault{{"create", 429, metav1.StatusReasonTooManyRequests, "slow down", 1}}
		}, ""},
		"creating is forbidden": {func(c *cluster) {
			c.role.Rules[0].Verbs = []string{"get", "list", "watch", "delete"}
		}, "does not let this plugin create pods in namespace bulkhead-scripts"},
		"no room": {func(c *cluster) {
			c.faults = []fault{{"create", 403, metav1.StatusReasonForbidden, "exceeded quota: scripts, requested: pods=1, used: pods=20", 0}}
		}, "no room for another pod"},
		"watches break off":       {func(c *cluster) { c.drop = 1 }, ""},
		"a watch that is too old": {func(c *cluster) { c.gone = 3 }, ""},
		"watching fails":          {func(c *cluster) { c.faults = []fault{{"watch", 500, metav1.StatusReasonInternalError, "oops", 0}} }, ""},
		"getting fails": {func(c *cluster) {
			c.faults = []fault{{"get pods", 503, metav1.StatusReasonServiceUnavailable, "later", 0}}
		}, ""},
		"the log breaks off": {func(c *cluster) { c.cut = 30 }, ""},
		"the log is not there yet": {func(c *cluster) {
			c.faults = []fault{{"get pods/log", 400, metav1.StatusReasonBadRequest, "container is waiting to start", 0}}
		}, ""},
		"deleting fails": {func(c *cluster) {
			c.faults = []fault{{"delete", 500, metav1.StatusReasonInternalError, "oops", 0}, {"delete", 429, metav1.StatusReasonTooManyRequests, "slow down", 1}}
		}, ""},
		"an image that is not there": {func(c *cluster) { c.stuck = "ImagePullBackOff" }, "ImagePullBackOff: no such image"},
		"the node is lost":           {func(c *cluster) { c.lost = true }, "the node gave the pod up: NodeLost"},
	} {
		t.Run(name, func(t *testing.T) {
			r, c := runner(t, nil)
			c.mu.Lock()
			row.set(c)
			c.mu.Unlock()
			got, err := python(t, r, script)
			if row.want == "" {
				if err != nil || string(got.Stdout) != "done\n" || got.Cause != run.Exited {
					t.Errorf("%+v %s %v", got, got.Stdout, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%+v %v; want %q", got, err, row.want)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			if len(c.pods) != 0 {
				t.Errorf("%d pods are left", len(c.pods))
			}
		})
	}
}

// What a dead process left is swept; what another one of the same owner waits for, as
// around a replacement, is not, and neither is what another host's does.
func TestWhatIsLeftIsSweptAtTheStart(t *testing.T) {
	c := newCluster(t)
	o := options(t, c)
	for name, labels := range map[string]map[string]string{
		"dead":    {ownerLabel: "host-1", processLabel: "abc"},
		"older":   {ownerLabel: "host-1"},
		"living":  {ownerLabel: "host-1", processLabel: o.Mark.Name},
		"another": {ownerLabel: "host-2"},
	} {
		labels[nameLabel] = podName
		c.pods[name] = &node{stop: func() {}, pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}}
	}
	if _, err := New(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pods["dead"] != nil || c.pods["older"] != nil || c.pods["living"] == nil || c.pods["another"] == nil {
		t.Errorf("deleted: %v", c.deleted)
	}
}

func TestACallerThatLeaves(t *testing.T) {
	r, c := runner(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	left := errors.New("left")
	_, err := r.Run(ctx, run.Spec{Language: run.Python, Script: []byte("import time\nprint('on', flush=True)\ntime.sleep(600)"), Timeout: time.Minute, Said: func(run.Stream, []byte) { cancel(left) }})
	if !errors.Is(err, left) {
		t.Errorf("%v", err)
	}
	clean(t, c)
}

func TestManyAtATime(t *testing.T) {
	r, c := runner(t, nil)
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			got, err := python(t, r, fmt.Sprint("print(", i, ")"))
			if err != nil || string(got.Stdout) != fmt.Sprintln(i) {
				t.Errorf("%d: %+v %v", i, got, err)
			}
		})
	}
	wg.Wait()
	clean(t, c)
}

func newReader(raw []byte) *bufio.Reader { return bufio.NewReader(bytes.NewReader(raw)) }
