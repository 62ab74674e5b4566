package api

import "github.com/millrace/millrace/internal/rollout"

// changeBody is rollout.Change with what the document says of it. The two have the same fields, or the conversion
// does not compile.
type changeBody struct {
	Depth         *int             `json:"depth,omitempty" minimum:"1" doc:"buffer.depth: steps' worth of groups kept queued, in flight or ready"`
	GroupsPerStep *int             `json:"groups_per_step,omitempty" minimum:"1" doc:"buffer.groups_per_step, of batches not yet claimed"`
	MaxStaleness  *int64           `json:"max_staleness,omitempty" minimum:"0" doc:"buffer.max_staleness, in policy versions"`
	OnStale       *rollout.OnStale `json:"on_stale,omitempty" enum:"drop,keep,wait" doc:"buffer.on_stale: drop what is too stale, keep and count it, or let the trainer wait so that nothing becomes so"`
	Samples       *int             `json:"samples,omitempty" minimum:"1" doc:"group.samples, of groups not yet launched"`
	MinSamples    *int             `json:"min_samples,omitempty" minimum:"1" doc:"group.min_samples, of groups not yet launched"`
	Paused        *bool            `json:"paused,omitempty" doc:"true launches nothing more; what is in flight finishes and may be claimed"`
	Steps         *int             `json:"steps,omitempty" minimum:"1" doc:"steps of the whole run"`

	MaxBytes     *int64                `json:"max_bytes,omitempty" minimum:"0" doc:"buffer.max_bytes: stored bytes beyond which no more groups are launched than the next batch needs; 0 is no bound"`
	Oversample   *int                  `json:"oversample,omitempty" minimum:"0" doc:"group.oversample: games started beyond samples, of groups not yet launched"`
	Grace        *rollout.Duration     `json:"grace,omitempty" example:"30s" doc:"group.grace: how long games may still take once min_samples have succeeded; 0s is to their end"`
	ZeroVariance *rollout.ZeroVariance `json:"zero_variance,omitempty" enum:"keep,drop" doc:"group.zero_variance: what becomes of a group whose rewards are all equal"`
}
