package sdk

import (
	"context"
	"time"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// Memory is the working memory of the scope: short-lived, searchable, shared with
// the agent.
type Memory struct{ h *Host }

// MemoryItem is what is put.
type MemoryItem struct {
	Key      string
	Value    []byte
	TTL      time.Duration // 0 = the host's default
	Category string
	Tags     []string
}

// MemoryHit is one result of a search.
type MemoryHit struct {
	Key, Category, Preview string
	Tags                   []string
	Size                   int64 // bytes
	ExpiresIn              time.Duration
}

// Put stores an item and gives its absolute key.
func (m *Memory) Put(ctx context.Context, item MemoryItem) (string, error) {
	resp, err := ask(ctx, m.h, hostQuick, &pluginv1.MemoryPutRequest{
		Scope: m.h.scope, Key: utf8(item.Key), Value: item.Value, TtlMs: item.TTL.Milliseconds(),
		Category: utf8(item.Category), Tags: item.Tags,
	}, pluginv1.HostServiceClient.MemoryPut)
	return resp.GetKey(), err
}

// Get gives length bytes from offset (0 = to the end) and the value's total size.
func (m *Memory) Get(ctx context.Context, key string, offset, length int64) (value []byte, total int64, found bool, err error) {
	resp, err := ask(ctx, m.h, hostQuick, &pluginv1.MemoryGetRequest{
		Scope: m.h.scope, Key: utf8(key), Offset: offset, Length: length,
	}, pluginv1.HostServiceClient.MemoryGet)
	return resp.GetValue(), resp.GetTotal(), resp.GetFound(), err
}

// Delete removes a key and reports whether it was there.
func (m *Memory) Delete(ctx context.Context, key string) (bool, error) {
	resp, err := ask(ctx, m.h, hostQuick, &pluginv1.MemoryDeleteRequest{Scope: m.h.scope, Key: utf8(key)}, pluginv1.HostServiceClient.MemoryDelete)
	return resp.GetFound(), err
}

// Search finds up to limit items by words, category and tags, each optional.
func (m *Memory) Search(ctx context.Context, query, category string, tags []string, limit int) ([]MemoryHit, error) {
	resp, err := ask(ctx, m.h, hostQuick, &pluginv1.MemorySearchRequest{
		Scope: m.h.scope, Query: utf8(query), Category: utf8(category), Tags: tags, Limit: uint32(max(limit, 0)),
	}, pluginv1.HostServiceClient.MemorySearch)
	var hits []MemoryHit
	for _, x := range resp.GetHits() {
		hits = append(hits, MemoryHit{
			Key: x.GetKey(), Category: x.GetCategory(), Preview: x.GetPreview(), Tags: x.GetTags(),
			Size: x.GetSize(), ExpiresIn: millis(x.GetExpiresInMs()),
		})
	}
	return hits, err
}
