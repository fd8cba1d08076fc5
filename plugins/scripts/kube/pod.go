package kube

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/bulkhead-dev/bulkhead/plugins/scripts/inside"
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/run"
)

// Labels of the pods.
const (
	nameLabel  = "app.kubernetes.io/name"
	ownerLabel = "bulkhead.dev/owner"
	// processLabel names the process that waits for the pod.
	processLabel = "bulkhead.dev/process"
	podName      = "bulkhead-script"
	container    = "script"
)

const (
	// maxOrder is how many bytes script and input may have together: they travel in the
	// pod's description, which an API server takes up to about 1.5 MiB of.
	maxOrder = 700 << 10
	partSize = 90_000 // of one variable, in base64
	// maxLogFiles is how many bytes of files come back through the log.
	maxLogFiles = 4 << 20
	user        = 65534
)

// TooLargeError says that a script and its input do not fit into a pod's description.
type TooLargeError struct{ Bytes int }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("script and input have %d bytes together; at most %d are taken in a cluster: put the data into a file the image has, or run it elsewhere", e.Bytes, maxOrder)
}

// pod describes the pod of a run.
func (r *Runner) pod(name string, s run.Spec) (*corev1.Pod, error) {
	if n := len(s.Script) + len(s.Input); n > maxOrder {
		return nil, &TooLargeError{n}
	}
	l := r.o.Limits
	raw, err := json.Marshal(inside.For(s, l, maxLogFiles))
	if err != nil {
		return nil, err
	}
	env := []corev1.EnvVar{{Name: "BULKHEAD_ORDER", Value: string(raw)}}
	env = append(env, parts("BULKHEAD_SCRIPT", s.Script)...)
	env = append(env, parts("BULKHEAD_DATA", s.Input)...)
	memory, disk := resource.NewQuantity(l.Memory, resource.BinarySI), resource.NewQuantity(l.Disk, resource.BinarySI)
	limits := corev1.ResourceList{corev1.ResourceCPU: r.o.CPU, corev1.ResourceMemory: *memory, corev1.ResourceEphemeralStorage: *resource.NewQuantity(3*l.Disk+(16<<20), resource.BinarySI)}
	empty := func(name string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: disk}}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: r.o.Namespace, Labels: map[string]string{nameLabel: podName, ownerLabel: r.o.Owner, processLabel: r.o.Mark.Name}},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			ActiveDeadlineSeconds:         ptr.To(int64(math.Ceil((s.Timeout + startTime + endTime).Seconds()))),
			TerminationGracePeriodSeconds: ptr.To[int64](0),
			AutomountServiceAccountToken:  ptr.To(false),
			EnableServiceLinks:            ptr.To(false),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](user), RunAsGroup: ptr.To[int64](user), FSGroup: ptr.To[int64](user),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Volumes: []corev1.Volume{empty("tmp"), empty("in"), empty("out")},
			Containers: []corev1.Container{{
				Name: container, Image: r.o.Image, Command: inside.Command(), Env: env,
				Resources:    corev1.ResourceRequirements{Limits: limits, Requests: limits},
				VolumeMounts: []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}, {Name: "in", MountPath: "/in"}, {Name: "out", MountPath: "/out"}},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}, nil
}

// parts are variables that hold bytes.
func parts(name string, data []byte) []corev1.EnvVar {
	text := base64.StdEncoding.EncodeToString(data)
	var out []corev1.EnvVar
	for i := 0; len(text) > 0; i++ {
		n := min(len(text), partSize)
		out = append(out, corev1.EnvVar{Name: name + "_" + strconv.Itoa(i), Value: text[:n]})
		text = text[n:]
	}
	return append(out, corev1.EnvVar{Name: name + "_PARTS", Value: strconv.Itoa(len(out))})
}

const (
	// startTime is what a pod has until its script runs: a node, an image.
	startTime = 2 * time.Minute
	// endTime is what a keeper has, past the script's own time, to send the files.
	endTime = 30 * time.Second
)
