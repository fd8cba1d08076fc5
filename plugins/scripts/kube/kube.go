package kube

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/bulkhead-dev/bulkhead/plugins/scripts/alive"
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/run"
)

// Options of a runner.
type Options struct {
	Config    *rest.Config
	Namespace string
	Image     string
	CPU       resource.Quantity
	Limits    run.Limits
	Owner     string      // of the pods: a label's value, the same after a restart
	Mark      *alive.Mark // of this process
	Log       *slog.Logger
}

// Config is how the cluster is reached: by the file, or from inside a pod of it when
// file is empty. The error is rest.ErrNotInCluster outside of one.
func Config(file string) (*rest.Config, error) {
	if file == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", file)
}

const (
	requestTime = 15 * time.Second
	deleteTime  = 30 * time.Second // for all attempts to delete a pod
	lookAgain   = 500 * time.Millisecond
)

// Runner runs scripts as pods.
type Runner struct {
	o    Options
	api  kubernetes.Interface
	mu   sync.Mutex
	busy sync.WaitGroup
	over bool
}

// New makes a runner, and deletes the pods that dead processes of this owner left. The
// error says what the cluster does not permit.
func New(ctx context.Context, o Options) (*Runner, error) {
	conf := rest.CopyConfig(o.Config)
	conf.UserAgent = "bulkhead-scripts"
	conf.QPS, conf.Burst = 50, 100 // a run takes half a dozen requests
	api, err := kubernetes.NewForConfig(conf)
	if err != nil {
		return nil, &run.Failure{Runner: "kubernetes", Reason: err.Error()}
	}
	r := &Runner{o: o, api: api}
	if err := r.sweep(ctx); err != nil {
		return nil, &run.Failure{Runner: r.Name(), Reason: r.words(err, "list", "pods")}
	}
	return r, nil
}

// Name is "kubernetes".
func (r *Runner) Name() string { return "kubernetes" }

// Languages is Python alone: that is what the image has.
func (r *Runner) Languages() []string { return []string{run.Python} }

// Close waits for what runs.
func (r *Runner) Close() {
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
	r.busy.Wait()
}

func (r *Runner) sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	list, err := r.api.CoreV1().Pods(r.o.Namespace).List(ctx, metav1.ListOptions{LabelSelector: nameLabel + "=" + podName + "," + ownerLabel + "=" + r.o.Owner})
	if err != nil {
		return err
	}
	for _, p := range list.Items {
		if !r.o.Mark.Lives(p.Labels[processLabel]) {
			r.delete(ctx, p.Name)
		}
	}
	return nil
}

// Run runs a script in a pod of its own, which is deleted whatever happens.
func (r *Runner) Run(ctx context.Context, s run.Spec) (run.Result, error) {
	r.mu.Lock()
	if r.over {
		r.mu.Unlock()
		return run.Result{}, &run.Failure{Runner: r.Name(), Reason: "it is closed"}
	}
	r.busy.Add(1)
	r.mu.Unlock()
	defer r.busy.Done()
	if s.Language != run.Python || s.Packages != "" || s.Installs() {
		return run.Result{}, &run.Failure{Runner: r.Name(), Reason: "only Python with what the image has is run in a cluster"}
	}
	name, err := r.create(ctx, s)
	// The pod may be there even when the answer was lost.
	defer r.delete(context.WithoutCancel(ctx), name)
	if err != nil {
		return run.Result{}, r.failure(ctx, err, "create", "pods")
	}
	begin := time.Now()
	if _, err := r.await(ctx, name, begun); err != nil {
		return run.Result{}, r.failure(ctx, err, "watch", "pods")
	}
	got, complete, err := r.listen(ctx, name, s)
	if ctx.Err() != nil {
		return run.Result{}, context.Cause(ctx)
	}
	if complete {
		return got, nil
	}
	// The log ended, or can't be read, before the keeper had said how the script did.
	wait, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	pod, lost := r.await(wait, name, ended)
	if lost != nil {
		if ctx.Err() != nil {
			return run.Result{}, context.Cause(ctx)
		}
		reason := fmt.Sprintf("the pod %s was lost: %v", name, lost)
		if err != nil {
			reason += fmt.Sprintf(" (and its log: %v)", err)
		}
		return run.Result{}, &run.Failure{Runner: r.Name(), Reason: reason}
	}
	got.Wall = time.Since(begin)
	return r.ending(got, pod)
}

// create makes the pod; a name that is taken is tried anew.
func (r *Runner) create(ctx context.Context, s run.Spec) (name string, err error) {
	for range 3 {
		name = podName + "-" + strings.ToLower(rand.Text()[:16])
		pod, err := r.pod(name, s)
		if err != nil {
			return name, err
		}
		req, cancel := context.WithTimeout(ctx, requestTime)
		_, err = r.api.CoreV1().Pods(r.o.Namespace).Create(req, pod, metav1.CreateOptions{})
		cancel()
		if !apierrors.IsAlreadyExists(err) {
			return name, err
		}
	}
	return name, errors.New("the names of pods are taken")
}

// delete deletes a pod at once, trying again until it is gone or the time is up. What is
// left then the next start sweeps, and the pod's own deadline ends its script.
func (r *Runner) delete(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, deleteTime)
	defer cancel()
	for {
		req, done := context.WithTimeout(ctx, requestTime)
		err := r.api.CoreV1().Pods(r.o.Namespace).Delete(req, name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
		done()
		if err == nil || apierrors.IsNotFound(err) {
			return
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			r.o.Log.Warn("a pod could not be deleted", "pod", name, "error", err)
			return
		}
	}
}

// state says whether a pod is where it is waited for; an error when it never will be.
type state func(*corev1.Pod) (bool, error)

// begun is a pod whose script runs, or ran.
func begun(p *corev1.Pod) (bool, error) {
	switch p.Status.Phase {
	case corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed:
		return true, nil
	}
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			switch w.Reason {
			case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
				return false, fmt.Errorf("the container can't be started: %s: %s", w.Reason, w.Message)
			}
		}
	}
	return false, nil
}

func ended(p *corev1.Pod) (bool, error) {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed, nil
}

// await waits until a pod is in a state. It asks anew whenever its watch breaks off.
func (r *Runner) await(ctx context.Context, name string, there state) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, fmt.Errorf("the pod did not get there within %s", startTime))
	defer cancel()
	pods := r.api.CoreV1().Pods(r.o.Namespace)
	said := ""
	for {
		req, done := context.WithTimeout(ctx, requestTime)
		pod, err := pods.Get(req, name, metav1.GetOptions{})
		done()
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%w%s", context.Cause(ctx), said)
		case apierrors.IsNotFound(err):
			return nil, errors.New("somebody deleted it")
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return nil, err
		case err == nil:
			if ok, err := there(pod); ok || err != nil {
				return pod, err
			}
			said = waits(pod)
			if pod, err = r.follow(ctx, pod, there); pod != nil || err != nil {
				return pod, err
			}
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
		}
	}
}

// follow watches a pod until it is there, or the watch ends: then it gives nothing.
func (r *Runner) follow(ctx context.Context, pod *corev1.Pod, there state) (*corev1.Pod, error) {
	w, err := r.api.CoreV1().Pods(r.o.Namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", pod.Name).String(), ResourceVersion: pod.ResourceVersion, TimeoutSeconds: ptr.To[int64](60)})
	if apierrors.IsForbidden(err) {
		return nil, err
	}
	if err != nil {
		return nil, nil
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		p, ok := e.Object.(*corev1.Pod)
		switch {
		case !ok, e.Type == watch.Error:
			return nil, nil // too old, or broken: asked anew
		case e.Type == watch.Deleted:
			return nil, errors.New("somebody deleted it")
		}
		if ok, err := there(p); ok || err != nil {
			return p, err
		}
	}
	return nil, nil
}

// waits says what a pod waits for.
func waits(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Status == corev1.ConditionFalse && c.Message != "" {
			return ": " + c.Message
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil && w.Reason != "" {
			return ": " + w.Reason + " " + w.Message
		}
	}
	return ""
}

// ending is how a pod's script ended when the keeper could not tell.
func (r *Runner) ending(got run.Result, p *corev1.Pod) (run.Result, error) {
	if p.Status.Reason == "DeadlineExceeded" {
		got.Cause = run.Timeout
		return got, nil
	}
	for _, c := range p.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil {
			got.Exit = int(t.ExitCode)
			if t.Reason == "OOMKilled" {
				got.Cause, got.PeakMemory = run.Memory, r.o.Limits.Memory
				return got, nil
			}
		}
	}
	switch p.Status.Reason {
	case "Evicted", "NodeLost", "Shutdown", "NodeShutdown", "Terminated", "Preempting", "UnexpectedAdmissionError":
		return run.Result{}, &run.Failure{Runner: r.Name(), Reason: fmt.Sprintf("the node gave the pod up: %s %s", p.Status.Reason, p.Status.Message)}
	}
	got.Cause = run.Lost
	return got, nil
}

// failure words what the API refused.
func (r *Runner) failure(ctx context.Context, err error, verb, what string) error {
	var large *TooLargeError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &large):
		return err
	}
	return &run.Failure{Runner: r.Name(), Reason: r.words(err, verb, what)}
}

func (r *Runner) words(err error, verb, what string) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err.Error()
	}
	message := status.Status().Message
	switch {
	case strings.Contains(message, "exceeded quota"):
		return "the namespace has no room for another pod: " + message
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("the cluster does not let this plugin %s %s in namespace %s (%s); the role of plugins/scripts/kube/manifests/scripts.yaml does", verb, what, r.o.Namespace, message)
	case apierrors.IsUnauthorized(err):
		return "the cluster does not know this plugin's token: " + message
	case apierrors.IsTooManyRequests(err):
		return "the cluster has too much to do: " + message
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("there is no namespace %s: %s", r.o.Namespace, message)
	}
	return message
}
