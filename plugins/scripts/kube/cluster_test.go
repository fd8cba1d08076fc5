//go:build linux

package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/bulkhead-dev/bulkhead/sdk/child"
)

// cluster speaks the paths of a Kubernetes API that the runner uses, over TLS, with a
// token and the rights of the role that ships; its other half is a kubelet that runs the
// container's command for real, behind walls of this machine.
type cluster struct {
	t    *testing.T
	srv  *httptest.Server
	role rbacv1.Role

	mu      sync.Mutex
	changed sync.Cond
	version int
	pods    map[string]*node
	made    int
	deleted []string
	denied  []string
	// faults are answered instead of what is asked, each once.
	faults []fault
	// drop ends each watch after so many events, 0 = not; gone answers 410 to watches.
	drop int
	gone int
	// cut breaks the log off after so many bytes, once.
	cut int
	// stuck leaves pods pending with a reason, lost takes running pods' node away.
	stuck string
	lost  bool
}

type fault struct {
	verb   string
	status int
	reason metav1.StatusReason
	text   string
	after  int
}

// node is a pod and what runs it.
type node struct {
	pod   *corev1.Pod
	log   bytes.Buffer
	ended bool
	stop  context.CancelFunc
}

const testToken = "a-token-of-the-test"

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, pods: map[string]*node{}, role: shippedRole(t)}
	c.changed.L = &c.mu
	c.srv = httptest.NewUnstartedServer(http.HandlerFunc(c.serve))
	c.srv.StartTLS()
	t.Cleanup(func() {
		c.mu.Lock()
		for _, n := range c.pods {
			n.stop()
		}
		c.changed.Broadcast()
		c.mu.Unlock()
		c.srv.CloseClientConnections()
		c.srv.Close()
	})
	return c
}

func (c *cluster) config() *rest.Config {
	return &rest.Config{Host: c.srv.URL, BearerToken: testToken, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, text string, after int) {
	w.Header().Set("Content-Type", "application/json")
	s := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: reason, Message: text, Code: int32(code)}
	if after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(after))
		s.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(after)}
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(s)
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

func (c *cluster) serve(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+testToken {
		refuse(w, 401, metav1.StatusReasonUnauthorized, "Unauthorized", 0)
		return
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/"+c.role.Namespace+"/pods")
	if !ok {
		refuse(w, 404, metav1.StatusReasonNotFound, "not here: "+r.URL.Path, 0)
		return
	}
	name, sub, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	what, verb := "pods", map[string]string{"POST": "create", "GET": "get", "DELETE": "delete"}[r.Method]
	switch {
	case sub != "":
		what = "pods/" + sub
	case verb == "get" && r.URL.Query().Get("watch") != "":
		verb = "watch"
	case verb == "get" && name == "":
		verb = "list"
	}
	if !c.may(verb, what) {
		c.mu.Lock()
		c.denied = append(c.denied, verb+" "+what)
		c.mu.Unlock()
		refuse(w, 403, metav1.StatusReasonForbidden, fmt.Sprintf("pods is forbidden: User cannot %s resource %q", verb, what), 0)
		return
	}
	c.mu.Lock()
	if i := slices.IndexFunc(c.faults, func(f fault) bool { return f.verb == verb || f.verb == verb+" "+what }); i >= 0 {
		f := c.faults[i]
		c.faults = slices.Delete(c.faults, i, i+1)
		c.mu.Unlock()
		refuse(w, f.status, f.reason, f.text, f.after)
		return
	}
	c.mu.Unlock()
	switch verb + " " + what {
	case "create pods":
		c.create(w, r)
	case "list pods":
		c.list(w, r)
	case "get pods":
		c.get(w, name)
	case "watch pods":
		c.watch(w, r)
	case "delete pods":
		c.remove(w, name)
	case "get pods/log":
		c.follow(w, r, name)
	default:
		refuse(w, 405, metav1.StatusReasonMethodNotAllowed, verb+" "+what, 0)
	}
}

func (c *cluster) may(verb, what string) bool {
	return slices.ContainsFunc(c.role.Rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.Resources, what) && slices.Contains(r.Verbs, verb)
	})
}

// set changes a pod; c.mu is held.
func (c *cluster) set(n *node, change func(*corev1.Pod)) {
	p := n.pod.DeepCopy()
	change(p)
	c.version++
	p.ResourceVersion = strconv.Itoa(c.version)
	n.pod = p
	c.changed.Broadcast()
}

func (c *cluster) create(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(io.LimitReader(r.Body, 3<<20))
	p := &corev1.Pod{}
	if err == nil { // in the API's binary form, which the client prefers, or in JSON
		_, _, err = scheme.Codecs.UniversalDeserializer().Decode(raw, nil, p)
	}
	if err != nil || len(raw) > 1536<<10 {
		refuse(w, 400, metav1.StatusReasonBadRequest, fmt.Sprintf("%d bytes: %v", len(raw), err), 0)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pods[p.Name] != nil {
		refuse(w, 409, metav1.StatusReasonAlreadyExists, "pods "+p.Name+" already exists", 0)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	n := &node{pod: p, stop: stop}
	c.pods[p.Name] = n
	c.made++
	c.set(n, func(p *corev1.Pod) {
		p.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
		p.Status.Phase = corev1.PodPending
		if c.stuck != "" {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: container, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: c.stuck, Message: "no such image"}}}}
		}
	})
	answer(w, 201, n.pod)
	if c.stuck == "" {
		go c.kubelet(ctx, n)
	}
}

// kubelet runs a pod's container.
func (c *cluster) kubelet(ctx context.Context, n *node) {
	spec := n.pod.Spec
	k := spec.Containers[0]
	deadline := time.Duration(*spec.ActiveDeadlineSeconds) * time.Second
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	mounts := slices.DeleteFunc(child.SystemMounts(), func(m child.Mount) bool { return m.Target == "/tmp" })
	for _, m := range k.VolumeMounts {
		mounts = append(mounts, child.Mount{Target: m.MountPath, Writable: true, Size: 32 << 20})
	}
	env := []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8"}
	for _, e := range k.Env {
		env = append(env, e.Name+"="+e.Value)
	}
	logs := &podLog{c, n}
	ch, err := child.Start(ctx, child.Spec{Path: "/usr/bin/" + k.Command[0], Args: k.Command, Env: env, Dir: "/", Stdout: logs, Stderr: logs,
		Root: &child.Root{Mounts: mounts}, FewCalls: true})
	if err != nil {
		c.mu.Lock()
		c.set(n, func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Failed", err.Error()
		})
		c.mu.Unlock()
		return
	}
	c.mu.Lock()
	c.set(n, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })
	if c.lost {
		// The node is gone: nothing of it is heard any more, and after a time the
		// cluster says so.
		n.ended = true
		c.set(n, func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "NodeLost", "Node w1 which was running pod is unresponsive"
		})
		c.mu.Unlock()
		ch.Stop()
		return
	}
	c.mu.Unlock()
	st, err := ch.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	n.ended = true
	c.set(n, func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodSucceeded
		if st.Code != 0 || err != nil {
			p.Status.Phase = corev1.PodFailed
		}
		if ctx.Err() == context.DeadlineExceeded {
			p.Status.Reason = "DeadlineExceeded"
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: container, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(st.Code), Reason: "Completed"}}}}
	})
}

type podLog struct {
	c *cluster
	n *node
}

func (l *podLog) Write(p []byte) (int, error) {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if !l.n.ended {
		l.n.log.Write(p)
		l.c.changed.Broadcast()
	}
	return len(p), nil
}

func (c *cluster) list(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(c.version)}}
	want, err := metav1.ParseToLabelSelector(r.URL.Query().Get("labelSelector"))
	if err != nil {
		refuse(w, 400, metav1.StatusReasonBadRequest, err.Error(), 0)
		return
	}
	for _, n := range c.pods {
		all := true
		for k, v := range want.MatchLabels {
			all = all && n.pod.Labels[k] == v
		}
		if all {
			out.Items = append(out.Items, *n.pod)
		}
	}
	answer(w, 200, out)
}

func (c *cluster) get(w http.ResponseWriter, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.pods[name]
	if n == nil {
		refuse(w, 404, metav1.StatusReasonNotFound, "pods "+name+" not found", 0)
		return
	}
	answer(w, 200, n.pod)
}

func (c *cluster) remove(w http.ResponseWriter, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.pods[name]
	if n == nil {
		refuse(w, 404, metav1.StatusReasonNotFound, "pods "+name+" not found", 0)
		return
	}
	n.stop()
	n.ended = true
	delete(c.pods, name)
	c.deleted = append(c.deleted, name)
	c.version++
	c.changed.Broadcast()
	answer(w, 200, n.pod)
}

// wake lets those that wait look again when a request ends.
func (c *cluster) wake(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.changed.Broadcast()
	})
}

func (c *cluster) watch(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	since, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if err != nil {
		refuse(w, 400, metav1.StatusReasonBadRequest, err.Error(), 0)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(200)
	f := w.(http.Flusher)
	f.Flush()
	defer c.wake(r.Context())()
	enc := json.NewEncoder(w)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone > 0 {
		c.gone--
		_ = enc.Encode(map[string]any{"type": "ERROR", "object": metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonExpired, Code: 410, Message: "too old resource version"}})
		return
	}
	sent := 0
	for r.Context().Err() == nil {
		n := c.pods[name]
		if n == nil {
			_ = enc.Encode(map[string]any{"type": "DELETED", "object": corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: name}}})
			return
		}
		if v, _ := strconv.Atoi(n.pod.ResourceVersion); v > since {
			since = v
			if enc.Encode(map[string]any{"type": "MODIFIED", "object": n.pod}) != nil {
				return
			}
			f.Flush()
			if sent++; sent == c.drop {
				return
			}
		}
		c.changed.Wait()
	}
}

func (c *cluster) follow(w http.ResponseWriter, r *http.Request, name string) {
	defer c.wake(r.Context())()
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.pods[name]
	if n == nil {
		refuse(w, 404, metav1.StatusReasonNotFound, "pods "+name+" not found", 0)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(200)
	sent := 0
	for r.Context().Err() == nil {
		text := n.log.Bytes()[sent:]
		if c.cut > 0 && sent+len(text) > c.cut {
			text = text[:max(c.cut-sent, 0)]
			c.cut = 0
			_, _ = w.Write(text)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler) // the connection breaks; the lock is let go by the defer
		}
		sent += len(text)
		if len(text) > 0 {
			text = bytes.Clone(text)
			if _, err := w.Write(text); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
		if n.ended && sent == n.log.Len() {
			return
		}
		if sent == n.log.Len() {
			c.changed.Wait()
		}
	}
}

func TestMain(m *testing.M) {
	child.Init()
	os.Exit(m.Run())
}
