package supervise

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// Bounds of one snapshot, over all its parts, and of how often one is taken.
const (
	maxOfferBytes = 32 << 20
	maxOfferParts = 256
	maxOfferItems = 20000
	offerPause    = 50 * time.Millisecond
)

// offers reads one WatchOffers stream.
type offers struct {
	plugin string
	stream grpc.ServerStreamingClient[pluginv1.OfferSnapshot]
}

// next reads one whole snapshot.
func (o *offers) next() (*pluginv1.OfferSnapshot, error) {
	var whole *pluginv1.OfferSnapshot
	var size, parts int
	for {
		part, err := o.stream.Recv()
		if err != nil {
			return nil, err
		}
		size += proto.Size(part)
		parts++
		switch {
		case whole == nil || part.GetRevision() != whole.GetRevision(): // a newer one began
			whole, size, parts = part, proto.Size(part), 1
		default:
			whole.Tools = append(whole.Tools, part.Tools...)
			whole.Prompts = append(whole.Prompts, part.Prompts...)
			whole.Resources = append(whole.Resources, part.Resources...)
			whole.Templates = append(whole.Templates, part.Templates...)
			whole.Guides = append(whole.Guides, part.Guides...)
			whole.Orientation = append(whole.Orientation, part.Orientation...)
			whole.UpdatedResourceUris = append(whole.UpdatedResourceUris, part.UpdatedResourceUris...)
			whole.Pending = part.Pending
		}
		items := len(whole.Tools) + len(whole.Prompts) + len(whole.Resources) + len(whole.Templates) +
			len(whole.Guides) + len(whole.Orientation) + len(whole.UpdatedResourceUris)
		if size > maxOfferBytes || parts > maxOfferParts || items > maxOfferItems {
			return nil, fault.New(fault.BadOffer, "plugin %q offers too much: %d items, %d bytes, %d parts; the bounds are %d, %d and %d", o.plugin, items, size, parts, maxOfferItems, maxOfferBytes, maxOfferParts)
		}
		if !part.GetMore() {
			whole.More = false
			return whole, nil
		}
	}
}

func (g *generation) openOffers() error {
	stream, err := g.proc.Client().WatchOffers(g.ctx, &pluginv1.WatchOffersRequest{})
	if err != nil {
		return err
	}
	g.offers = &offers{plugin: g.u.name, stream: stream}
	return nil
}

// firstOffers waits for the first snapshot.
func (g *generation) firstOffers(ctx context.Context) error {
	timer := time.AfterFunc(g.u.s.opts.ConfigTimeout, g.cancel) // this generation is not going to be
	defer timer.Stop()
	defer context.AfterFunc(ctx, g.cancel)()
	if err := g.openOffers(); err != nil {
		return g.failed("WatchOffers", err)
	}
	snap, err := g.offers.next()
	if err != nil {
		var f *fault.Error
		if errors.As(err, &f) {
			return f
		}
		if status.Code(err) == codes.Canceled && ctx.Err() == nil {
			return fault.New(fault.PluginStart, "plugin %q sent no offers within %s", g.u.name, g.u.s.opts.ConfigTimeout)
		}
		return g.failed("WatchOffers", err)
	}
	g.latest = snap
	return nil
}

// watch publishes the snapshots that follow, for the life of the generation. A
// stream that ends is opened anew, at a growing distance.
func (g *generation) watch() {
	pause := offerPause
	for {
		snap, err := g.offers.next()
		if err == nil {
			g.publish(snap)
			pause = offerPause
		}
		if g.ctx.Err() != nil {
			return
		}
		if err != nil {
			pause = min(2*pause, 30*time.Second)
			var f *fault.Error
			if errors.As(err, &f) {
				g.u.log.Error("offers refused; the earlier ones stay", "error", f.Message, "ref", f.Ref)
			}
		}
		select {
		case <-g.ctx.Done():
			return
		case <-time.After(pause):
		}
		if err != nil {
			if g.openOffers() != nil {
				continue // the next read fails too, and waits longer
			}
		}
	}
}

func (g *generation) publish(snap *pluginv1.OfferSnapshot) {
	g.u.mu.Lock()
	defer g.u.mu.Unlock()
	g.latest = snap
	if g.u.cur.Load() == g {
		g.u.s.opts.Offers.Publish(g.u.name, g.number, snap)
	}
}
