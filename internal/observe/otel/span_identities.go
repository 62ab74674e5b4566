package otel

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"go.opentelemetry.io/otel/trace"

	"github.com/millrace/millrace/internal/rollout"
)

// A run is one trace. The ids of its run, step and group spans are derived from their names. So every process knows the
// parent of its spans before the parent has ended, and without asking who reports it.

func hashOf(kind string, run rollout.RunName, number int64) [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "millrace %s %s %d", kind, run, number))
}

// TraceID is the trace of a run.
func TraceID(run rollout.RunName) trace.TraceID { return spanOf("trace", run, 0).trace }

type identity struct {
	trace trace.TraceID
	span  trace.SpanID
}

func spanOf(kind string, run rollout.RunName, number int64) identity {
	var id identity
	root, own := hashOf("trace", run, 0), hashOf(kind, run, number)
	copy(id.trace[:], root[:])
	copy(id.span[:], own[:])
	return id
}

func runSpan(run rollout.RunName) identity { return spanOf("run", run, 0) }
func stepSpan(run rollout.RunName, step rollout.Step) identity {
	return spanOf("step", run, int64(step))
}
func groupSpan(ref rollout.GroupRef) identity { return spanOf("group", ref.Run, int64(ref.Seq)) }

// context is the identity as a parent.
func (id identity) context(sampled bool) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: id.trace, SpanID: id.span, TraceFlags: trace.TraceFlags(0).WithSampled(sampled), Remote: true,
	})
}

// inSample reports whether a group is among the share that is traced: wherever it is asked, the same.
func inSample(ref rollout.GroupRef, ratio float64) bool {
	h := hashOf("sample", ref.Run, int64(ref.Seq))
	return float64(binary.BigEndian.Uint64(h[:8])>>11) < ratio*(1<<53)
}

// wanted is the key of the identity that a span is to have, in a context.
type wanted struct{}

// identities gives spans the identity that their context asks for, and others one by chance.
type identities struct{}

func (identities) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if id, ok := ctx.Value(wanted{}).(identity); ok {
		return id.trace, id.span
	}
	var id identity
	_, _ = rand.Read(id.trace[:]) // never fails
	_, _ = rand.Read(id.span[:])
	return id.trace, id.span
}

func (g identities) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	_, span := g.NewIDs(ctx)
	return span
}

// Exemplar is the labels under which a measurement of a group is found among the traces; nil where it is not traced.
func (e *Exporter) Exemplar(run rollout.RunName, group rollout.GroupSeq) map[string]string {
	ref := rollout.GroupRef{Run: run, Seq: group}
	if !e.Traces() || !inSample(ref, e.cfg.Ratio) {
		return nil
	}
	id := groupSpan(ref)
	return map[string]string{"trace_id": id.trace.String(), "span_id": id.span.String()}
}
