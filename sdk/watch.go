package sdk

import (
	"encoding/json"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// WatchOffers streams the whole offer now and after every change. Changes that
// come faster than they are sent become one snapshot.
func (s *server) WatchOffers(_ *pluginv1.WatchOffersRequest, stream pluginv1.PluginService_WatchOffersServer) error {
	if !s.configured.Load() {
		return status.Errorf(codes.FailedPrecondition, "plugin %q is not configured", s.p.Name)
	}
	for {
		parts, changed := s.p.offers.snapshot()
		for _, part := range parts {
			if err := stream.Send(part); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

// snapshotPart is the size a part is kept under, in bytes: well below a message.
const snapshotPart = 1 << 20

func (o *Offers) snapshot() ([]*pluginv1.OfferSnapshot, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	updated := o.updated
	o.updated = nil
	return split(o.revision, o.pending, o.index.all, updated), o.changed
}

// split writes an offer as parts of which all but the last have more set.
func split(revision uint64, pending bool, all Offer, updated []string) []*pluginv1.OfferSnapshot {
	var parts []*pluginv1.OfferSnapshot
	var part *pluginv1.OfferSnapshot
	size := 0
	next := func() {
		part = &pluginv1.OfferSnapshot{Revision: revision, Pending: pending}
		parts = append(parts, part)
		size = 0
	}
	next()
	room := func(m proto.Message) {
		n := proto.Size(m) + 8
		if size > 0 && size+n > snapshotPart {
			part.More = true
			next()
		}
		size += n
	}
	for _, t := range all.Tools {
		p := t.proto()
		room(p)
		part.Tools = append(part.Tools, p)
	}
	for _, x := range all.Prompts {
		p := &pluginv1.Prompt{
			Name: utf8(x.Name), Title: utf8(x.Title), Description: utf8(x.Description),
			Arguments: x.RawArguments, Meta: x.Meta, Exposure: pluginv1.Exposure(x.Exposure),
		}
		if p.Arguments == nil && len(x.Arguments) > 0 {
			p.Arguments, _ = json.Marshal(x.Arguments) // strings and bools: can't fail
		}
		room(p)
		part.Prompts = append(part.Prompts, p)
	}
	for _, x := range all.Resources {
		p := &pluginv1.Resource{
			Uri: utf8(x.URI), Name: utf8(x.Name), Title: utf8(x.Title), Description: utf8(x.Description),
			Mime: utf8(x.MIME), Size: x.Size, Meta: x.Meta,
		}
		room(p)
		part.Resources = append(part.Resources, p)
	}
	for _, x := range all.Templates {
		p := &pluginv1.ResourceTemplate{
			UriTemplate: utf8(x.URITemplate), Name: utf8(x.Name), Title: utf8(x.Title),
			Description: utf8(x.Description), Mime: utf8(x.MIME), Meta: x.Meta,
		}
		room(p)
		part.Templates = append(part.Templates, p)
	}
	for _, x := range all.Guides {
		p := &pluginv1.Guide{Name: utf8(x.Name), Summary: utf8(x.Summary), Markdown: utf8(x.Markdown)}
		room(p)
		part.Guides = append(part.Guides, p)
	}
	for _, x := range all.Orientation {
		p := &pluginv1.Orientation{Text: utf8(x.Text), AnyListed: x.AnyListed, ModelTiers: x.ModelTiers, Order: int32(x.Order)}
		room(p)
		part.Orientation = append(part.Orientation, p)
	}
	for _, uri := range updated {
		p := &pluginv1.OfferSnapshot{UpdatedResourceUris: []string{utf8(uri)}}
		room(p)
		part.UpdatedResourceUris = append(part.UpdatedResourceUris, utf8(uri))
	}
	return parts
}
