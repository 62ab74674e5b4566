package trainer

import (
	"fmt"
	"time"
)

// spec is the part of a run's spec that its trainer cares about.
type spec struct {
	Model    string `json:"model"`
	Steps    int    `json:"steps"`
	Adapters struct {
		Rank       int    `json:"rank"`
		PathPrefix string `json:"path_prefix"`
	} `json:"adapters"`
	Demo struct {
		Speed       float64  `json:"speed"`
		Load        duration `json:"load"`
		RefLogprobs duration `json:"ref_logprobs"`
		Train       duration `json:"train"`
		Publish     duration `json:"publish"`
	} `json:"demo"`
}

// with applies what the configuration overrules.
func (s spec) with(cfg Config) spec {
	if cfg.Speed > 0 {
		s.Demo.Speed = cfg.Speed
	}
	if s.Demo.Speed <= 0 {
		s.Demo.Speed = 1
	}
	if cfg.Rank > 0 {
		s.Adapters.Rank = cfg.Rank
	}
	for _, overrule := range []struct {
		time  time.Duration
		phase *duration
	}{
		{cfg.Load, &s.Demo.Load}, {cfg.RefLogprobs, &s.Demo.RefLogprobs},
		{cfg.Train, &s.Demo.Train}, {cfg.Publish, &s.Demo.Publish},
	} {
		if overrule.time > 0 {
			*overrule.phase = duration(overrule.time)
		}
	}
	return s
}

// duration is a time written as text, such as 2m30s.
type duration time.Duration

// UnmarshalText reads "2m30s".
func (d *duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 90s", b)
	}
	*d = duration(v)
	return nil
}
