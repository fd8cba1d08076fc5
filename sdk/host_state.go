package sdk

import (
	"context"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// State is durable, belongs to the plugin instance and survives restarts. Values
// have at most 1 MiB. Writes of an older generation are refused as Fenced.
type State struct{ h *Host }

// StateEntry is one key of a list.
type StateEntry struct {
	Key     string
	Version uint64
	Size    int64
}

// Get gives a value and its version; a missing key is not an error.
func (s *State) Get(ctx context.Context, key string) (value []byte, version uint64, found bool, err error) {
	resp, err := ask(ctx, s.h, hostQuick, &pluginv1.StateGetRequest{Key: key}, pluginv1.HostServiceClient.StateGet)
	return resp.GetValue(), resp.GetVersion(), resp.GetFound(), err
}

// Put stores a value and gives its new version. secret seals it with a key of
// this plugin.
func (s *State) Put(ctx context.Context, key string, value []byte, secret bool) (uint64, error) {
	resp, err := ask(ctx, s.h, hostQuick, &pluginv1.StatePutRequest{Key: key, Value: value, Secret: secret}, pluginv1.HostServiceClient.StatePut)
	return resp.GetVersion(), err
}

// Delete removes a key and reports whether it was there.
func (s *State) Delete(ctx context.Context, key string) (bool, error) {
	resp, err := ask(ctx, s.h, hostQuick, &pluginv1.StateDeleteRequest{Key: key}, pluginv1.HostServiceClient.StateDelete)
	return resp.GetFound(), err
}

// List gives up to limit keys under a prefix in order, after the key given; next
// is what to pass as after for more, empty at the end. limit 0 = the host's own.
func (s *State) List(ctx context.Context, prefix, after string, limit int) (entries []StateEntry, next string, err error) {
	resp, err := ask(ctx, s.h, hostQuick, &pluginv1.StateListRequest{Prefix: prefix, After: after, Limit: uint32(max(limit, 0))}, pluginv1.HostServiceClient.StateList)
	for _, e := range resp.GetEntries() {
		entries = append(entries, StateEntry{Key: e.GetKey(), Version: e.GetVersion(), Size: e.GetSize()})
	}
	return entries, resp.GetNext(), err
}

// CompareAndSet stores a value when the key still has the version; 0 = it must be
// absent. version is the one there is afterwards.
func (s *State) CompareAndSet(ctx context.Context, key string, expected uint64, value []byte, secret bool) (swapped bool, version uint64, err error) {
	resp, err := ask(ctx, s.h, hostQuick, &pluginv1.StateCompareAndSetRequest{
		Key: key, ExpectedVersion: expected, Value: value, Secret: secret,
	}, pluginv1.HostServiceClient.StateCompareAndSet)
	return resp.GetSwapped(), resp.GetVersion(), err
}
