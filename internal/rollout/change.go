package rollout

// With is the spec after a change; whether it is paused is not part of it.
func (s Spec) With(c Change) Spec {
	set(&s.Buffer.Depth, c.Depth)
	set(&s.Buffer.GroupsPerStep, c.GroupsPerStep)
	set(&s.Buffer.MaxStaleness, c.MaxStaleness)
	set(&s.Buffer.OnStale, c.OnStale)
	set(&s.Buffer.MaxBytes, c.MaxBytes)
	set(&s.Group.Samples, c.Samples)
	set(&s.Group.MinSamples, c.MinSamples)
	set(&s.Group.Oversample, c.Oversample)
	set(&s.Group.Grace, c.Grace)
	set(&s.Group.ZeroVariance, c.ZeroVariance)
	set(&s.Steps, c.Steps)
	return s
}

func set[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

// Games is how many games the run may have outstanding: those of every group that it keeps queued, in flight or ready.
func (s Spec) Games() int64 {
	return int64(s.Buffer.Outstanding()) * (int64(s.Group.Samples) + int64(s.Group.Oversample))
}
