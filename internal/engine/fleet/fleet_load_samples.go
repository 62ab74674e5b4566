package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// keptSamples bounds the stream of samples: five hours at one per second.
const keptSamples = 20_000

// maxSampleWindow bounds the time that one sample speaks for, so that a gap in sampling is not filled with its last
// value.
const maxSampleWindow = 10 * time.Second

// Sampler keeps samples of the whole fleet, from which View makes means over any window that is still kept.
type Sampler struct {
	rdb redis.UniversalClient
	key string
}

// NewSampler keeps samples under prefix.
func NewSampler(rdb redis.UniversalClient, prefix string) *Sampler {
	return &Sampler{rdb: rdb, key: prefix + ":{fleet}:samples"}
}

// Sample is the fleet over the window that ends at At. It counts ready engines only.
type Sample struct {
	At        time.Time `json:"-"` // in milliseconds
	WindowSec float64   `json:"w"`
	Engines   int       `json:"n"`
	Busy      int       `json:"b"` // engines with at least one running request
	InFlight  float64   `json:"r"` // running or waiting at the engines
	Limit     int       `json:"l"` // sum of the engines' limits
	Queued    int       `json:"q"` // in dispatch queues
	InputTPS  float64   `json:"i"` // sums over the engines
	OutputTPS float64   `json:"o"`
	// Models is the engines of each base model, where not all serve the same; nil: they do.
	Models map[string]Sample `json:"m,omitempty"`
}

// Summarise makes a sample of what the engines were last seen to do.
func Summarise(at time.Time, window time.Duration, engines []enginestate.Engine, queued int) Sample {
	s := summed(at, window, engines, queued)
	models := map[string]bool{}
	for _, e := range engines {
		for _, model := range e.Models {
			models[model] = true
		}
	}
	for model := range models {
		if of := summed(at, window, ServingModel(engines, model), queued); of.Engines < s.Engines {
			if s.Models == nil {
				s.Models = map[string]Sample{}
			}
			s.Models[model] = of
		}
	}
	return s
}

// ServingModel lists the engines that serve a base model, or of which that is not known.
func ServingModel(engines []enginestate.Engine, model string) []enginestate.Engine {
	return slices.DeleteFunc(slices.Clone(engines), func(e enginestate.Engine) bool {
		return len(e.Models) > 0 && !slices.Contains(e.Models, model)
	})
}

func summed(at time.Time, window time.Duration, engines []enginestate.Engine, queued int) Sample {
	s := Sample{At: at, WindowSec: min(window, maxSampleWindow).Seconds(), Queued: queued}
	for _, e := range engines {
		if e.State != enginestate.EngineReady {
			continue
		}
		s.Engines++
		s.Limit += e.Limit()
		s.InFlight += e.Load.Running + e.Load.Waiting
		s.InputTPS += e.Load.InputTPS
		s.OutputTPS += e.Load.OutputTPS
		if e.Load.Running > 0 {
			s.Busy++
		}
	}
	return s
}

// Record appends a sample. Samples of one millisecond, as two Keepers that overlap for a moment may make, are all kept.
func (s *Sampler) Record(ctx context.Context, sample Sample) error {
	b, err := json.Marshal(sample)
	if err != nil {
		return err
	}
	if err := s.append(ctx, s.key, keptSamples, sample.At, b); err != nil {
		return fmt.Errorf("record fleet sample: %w", err)
	}
	return nil
}

// View is the engines of a base model, or all for "", between two moments. Its WindowSec is the part of that time
// which samples cover: zero means that nothing is known.
func (s *Sampler) View(ctx context.Context, model string, from, to time.Time) (steprecord.FleetView, error) {
	entries, err := s.between(ctx, s.key, from, to.Add(maxSampleWindow)) // its window may reach back over to
	if err != nil {
		return steprecord.FleetView{}, fmt.Errorf("read fleet samples: %w", err)
	}
	samples := make([]Sample, 0, len(entries))
	for _, e := range entries {
		sample, err := decodeSample(e)
		if err != nil {
			return steprecord.FleetView{}, err
		}
		if of, apart := sample.Models[model]; apart {
			of.At = sample.At
			sample = of
		}
		samples = append(samples, sample)
	}
	return Mean(samples, from, to), nil
}

func decodeSample(e redis.XMessage) (Sample, error) {
	var s Sample
	text, _ := e.Values["s"].(string)
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return Sample{}, fmt.Errorf("fleet sample %s: %w", e.ID, err)
	}
	var err error
	if s.At, err = sampledAt(e); err != nil {
		return Sample{}, fmt.Errorf("fleet sample %s: %w", e.ID, err)
	}
	if !s.sound() {
		return Sample{}, fmt.Errorf("fleet sample %s: %s is beyond what a fleet does in %v", e.ID, text, maxSampleWindow)
	}
	return s, nil
}

// sound reports whether the figures are such that means over any window are numbers.
func (s Sample) sound() bool {
	const most = 1e15
	for _, v := range []float64{
		float64(s.Engines), float64(s.Busy), s.InFlight, float64(s.Limit), float64(s.Queued), s.InputTPS, s.OutputTPS,
	} {
		if math.Abs(v) > most {
			return false
		}
	}
	for _, of := range s.Models {
		if !of.sound() {
			return false
		}
	}
	return s.WindowSec >= 0 && s.WindowSec <= maxSampleWindow.Seconds()
}

// Mean is the fleet between two moments, from samples in order of time. Each sample counts by the part
// of its window that lies between them; shares are means over engine-seconds and rates over seconds.
func Mean(samples []Sample, from, to time.Time) steprecord.FleetView {
	var v steprecord.FleetView
	var engineSec, busySec, flightSec, limitSec float64
	covered := from // windows may overlap; each moment counts once
	for _, s := range samples {
		start := s.At.Add(-time.Duration(s.WindowSec * float64(time.Second)))
		w := units.Earlier(s.At, to).Sub(units.Later(start, covered)).Seconds()
		if w <= 0 {
			continue
		}
		covered = units.Earlier(s.At, to)
		v.WindowSec += w
		engineSec += w * float64(s.Engines)
		busySec += w * float64(s.Busy)
		flightSec += w * s.InFlight
		limitSec += w * float64(s.Limit)
		v.QueuedRequests += w * float64(s.Queued)
		v.InputTPS += w * s.InputTPS
		v.OutputTPS += w * s.OutputTPS
	}
	v.Engines = units.Share(engineSec, v.WindowSec)
	v.BusyShare = units.Share(busySec, engineSec)
	v.InFlight = units.Share(flightSec, engineSec)
	v.SlotShare = units.Share(flightSec, limitSec)
	v.QueuedRequests = units.Share(v.QueuedRequests, v.WindowSec)
	v.InputTPS = units.Share(v.InputTPS, v.WindowSec)
	v.OutputTPS = units.Share(v.OutputTPS, v.WindowSec)
	return v
}
