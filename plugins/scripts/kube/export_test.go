//go:build linux

package kube

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// KubeconfigOfACluster starts a cluster of the tests and writes how it is reached. left
// says how many pods it has.
func KubeconfigOfACluster(t *testing.T) (file string, left func() int) {
	t.Helper()
	_, c := runner(t, nil)
	file = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: test}}]
clusters: [{name: test, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: test, user: {token: %q}}]
`, c.srv.URL, testToken)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.pods)
	}
}
