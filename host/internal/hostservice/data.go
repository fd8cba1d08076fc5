package hostservice

import (
	"context"
	"time"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// StateGet reads one value of the plugin's own durable state.
func (s *service) StateGet(ctx context.Context, r *pluginv1.StateGetRequest) (*pluginv1.StateGetResponse, error) {
	v, err := s.Store.StateGet(ctx, s.who.plugin, r.Key)
	if err != nil {
		return nil, wire(err)
	}
	return &pluginv1.StateGetResponse{Value: v.Value, Version: v.Version, Found: v.Version > 0}, nil
}

// StatePut writes one value, whatever was there.
func (s *service) StatePut(ctx context.Context, r *pluginv1.StatePutRequest) (*pluginv1.StatePutResponse, error) {
	if err := s.live(); err != nil {
		return nil, wire(err)
	}
	version, err := s.Store.StatePut(ctx, s.who.plugin, s.who.number, r.Key, r.Value, r.Secret)
	if err != nil {
		return nil, wire(err)
	}
	return &pluginv1.StatePutResponse{Version: version}, nil
}

// StateDelete removes one value.
func (s *service) StateDelete(ctx context.Context, r *pluginv1.StateDeleteRequest) (*pluginv1.StateDeleteResponse, error) {
	if err := s.live(); err != nil {
		return nil, wire(err)
	}
	found, err := s.Store.StateDelete(ctx, s.who.plugin, s.who.number, r.Key)
	if err != nil {
		return nil, wire(err)
	}
	return &pluginv1.StateDeleteResponse{Found: found}, nil
}

// StateList lists keys below a prefix, a page at a time.
func (s *service) StateList(ctx context.Context, r *pluginv1.StateListRequest) (*pluginv1.StateListResponse, error) {
	limit := int(r.Limit)
	if limit <= 0 || limit > 1000 {
		limit = 1000
	}
	entries, next, err := s.Store.StateList(ctx, s.who.plugin, r.Prefix, r.After, limit)
	if err != nil {
		return nil, wire(err)
	}
	out := &pluginv1.StateListResponse{Next: next}
	for _, e := range entries {
		out.Entries = append(out.Entries, &pluginv1.StateEntry{Key: e.Key, Version: e.Version, Size: e.Size})
	}
	return out, nil
}

// StateCompareAndSet writes one value if its version is still the one expected.
func (s *service) StateCompareAndSet(ctx context.Context, r *pluginv1.StateCompareAndSetRequest) (*pluginv1.StateCompareAndSetResponse, error) {
	if err := s.live(); err != nil {
		return nil, wire(err)
	}
	swapped, version, err := s.Store.StateCompareAndSet(ctx, s.who.plugin, s.who.number, r.Key, r.ExpectedVersion, r.Value, r.Secret)
	if err != nil {
		return nil, wire(err)
	}
	return &pluginv1.StateCompareAndSetResponse{Swapped: swapped, Version: version}, nil
}

// MemoryPut saves a value in the working memory of the scope.
func (s *service) MemoryPut(ctx context.Context, r *pluginv1.MemoryPutRequest) (*pluginv1.MemoryPutResponse, error) {
	sc, err := s.scope(ctx, r.Scope)
	if err != nil {
		return nil, wire(err)
	}
	key, err := s.Memory.Put(s.namespace(sc), r.Key, r.Value,
		time.Duration(r.TtlMs)*time.Millisecond, r.Category, r.Tags)
	if err != nil {
		return nil, wire(err)
	}
	return &pluginv1.MemoryPutResponse{Key: key}, nil
}

// MemoryGet reads a value, or a range of its bytes.
func (s *service) MemoryGet(ctx context.Context, r *pluginv1.MemoryGetRequest) (*pluginv1.MemoryGetResponse, error) {
	sc, err := s.scope(ctx, r.Scope)
	if err != nil {
		return nil, wire(err)
	}
	value, total, found, err := s.Memory.Get(s.namespace(sc), r.Key, r.Offset, r.Length, nil)
	if err != nil {
		return nil, wire(err)
	}
	return &pluginv1.MemoryGetResponse{Value: value, Total: total, Found: found}, nil
}

// MemoryDelete removes a value.
func (s *service) MemoryDelete(ctx context.Context, r *pluginv1.MemoryDeleteRequest) (*pluginv1.MemoryDeleteResponse, error) {
	sc, err := s.scope(ctx, r.Scope)
	if err != nil {
		return nil, wire(err)
	}
	found, err := s.Memory.Delete(s.namespace(sc), r.Key, nil)
	if err != nil {
		return nil, wire(err)
	}
	return &pluginv1.MemoryDeleteResponse{Found: found}, nil
}

// MemorySearch finds values of the scope.
func (s *service) MemorySearch(ctx context.Context, r *pluginv1.MemorySearchRequest) (*pluginv1.MemorySearchResponse, error) {
	sc, err := s.scope(ctx, r.Scope)
	if err != nil {
		return nil, wire(err)
	}
	out := &pluginv1.MemorySearchResponse{}
	for _, h := range s.Memory.Search(s.namespace(sc), r.Query, r.Category, r.Tags, int(min(r.Limit, 1000))) {
		out.Hits = append(out.Hits, &pluginv1.MemoryHit{Key: h.Key, Category: h.Category, Tags: h.Tags, Preview: h.Preview,
			Size: h.Size, ExpiresInMs: h.ExpiresIn.Milliseconds()})
	}
	return out, nil
}
