package rollout

import (
	"hash/maphash"
	"slices"
)

// callParameters is what an engine takes once for a whole call, whatever the number of its prompts; stop texts and the
// choices of a constraint belong to it, too, but are no comparable values.
type callParameters struct {
	model    string
	sampling Sampling
	kind     ConstraintKind
	pattern  string
}

func (r *Request) callParameters() callParameters {
	return callParameters{r.Model, r.Sampling, r.Constraint.Kind, r.Constraint.Pattern}
}

func (r *Request) callLists() [2][]string { return [2][]string{r.Constraint.Choices, r.Stop} }

// SharesCall reports whether two requests may be sampled in one call.
func (r *Request) SharesCall(o *Request) bool {
	a, b := r.callLists(), o.callLists()
	return r.callParameters() == o.callParameters() && slices.Equal(a[0], b[0]) && slices.Equal(a[1], b[1])
}

// CallClass is the same for all requests that may share a call, and hardly ever for others.
func (r *Request) CallClass(seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	maphash.WriteComparable(&h, r.callParameters())
	for _, texts := range r.callLists() {
		maphash.WriteComparable(&h, len(texts))
		for _, text := range texts {
			maphash.WriteComparable(&h, text)
		}
	}
	return h.Sum64()
}
