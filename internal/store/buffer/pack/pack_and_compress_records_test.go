package pack_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/buffer/pack"
)

func TestGroupsComeBack(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		want := randomGroup(rand.New(rand.NewPCG(seed, 0)))
		packed, err := pack.Group(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := pack.ReadGroup(packed)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d:\n got %+v\nwant %+v", seed, got, want)
		}
	}
}

func TestEpisodesAndCheckpointsComeBack(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		want := rollout.Checkpoint{PhaseIndex: rng.IntN(100), Game: []byte("{board}"), Episode: randomEpisode(rng)}
		packed, err := pack.Save(&want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := pack.Load(packed)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: %v\n got %+v\nwant %+v", seed, err, got, want)
		}
		packed, err = pack.Episode(&want.Episode)
		if err != nil {
			t.Fatal(err)
		}
		ep, err := pack.ReadEpisode(packed)
		if err != nil || !reflect.DeepEqual(ep, want.Episode) {
			t.Fatalf("seed %d: %v\n got %+v\nwant %+v", seed, err, ep, want.Episode)
		}
	}
}

func TestEveryFieldIsPacked(t *testing.T) {
	t.Parallel()
	g, ep := &rollout.Group{}, rollout.Episode{}
	fill(reflect.ValueOf(g).Elem(), new(int64))
	fill(reflect.ValueOf(&ep).Elem(), new(int64))
	g.Cancelled, g.Counts, g.Orders = 0, nil, nil // for the step's record only

	packed, err := pack.Group(g)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := pack.ReadGroup(packed); err != nil || !reflect.DeepEqual(got, g) {
		t.Errorf("group: %v\n got %+v\nwant %+v", err, got, g)
	}
	if packed, err = pack.Episode(&ep); err != nil {
		t.Fatal(err)
	}
	if got, err := pack.ReadEpisode(packed); err != nil || !reflect.DeepEqual(got, ep) {
		t.Errorf("episode: %v\n got %+v\nwant %+v", err, got, ep)
	}
}

// fill gives every field a value of its own, so that one that is forgotten or mixed up shows.
func fill(v reflect.Value, n *int64) {
	*n++
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Unix(*n, *n).UTC()))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(key, n)
			fill(value, n)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		v.SetString(strings.Repeat("s", int(*n)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	default:
		v.SetInt(*n)
	}
}

func TestNothingIsReadFromJunk(t *testing.T) {
	t.Parallel()
	g := randomGroup(rand.New(rand.NewPCG(1, 1)))
	packed, err := pack.Group(g)
	if err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte{}, packed...)
	flipped[len(flipped)/2] ^= 1
	newer := append([]byte{}, packed...)
	newer[1]++
	older := append([]byte{}, packed...)
	older[1] = 0
	for name, junk := range map[string][]byte{
		"nothing":       nil,
		"text":          []byte("hello, world"),
		"cut off":       packed[:len(packed)-1],
		"a flipped bit": flipped,
		"newer format":  newer,
		"no format":     older,
	} {
		if _, err := pack.ReadGroup(junk); !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := pack.ReadEpisode(packed); !errors.Is(err, pack.ErrCorrupt) {
		t.Errorf("a group read as an episode: %v", err)
	}
}

func TestOtherNumbersSurvive(t *testing.T) {
	t.Parallel()
	g := randomGroup(rand.New(rand.NewPCG(2, 2)))
	g.Trajectories = []rollout.Trajectory{{ID: "other id", Agent: "A", Turns: []rollout.Turn{{
		PromptTokenIDs: []int32{math.MinInt32, -1, 0, math.MaxInt32},
		TokenIDs:       []int32{math.MaxInt32},
		Logprobs:       []float32{float32(math.Inf(-1)), math.SmallestNonzeroFloat32, float32(math.Copysign(0, -1))},
	}}}}
	packed, err := pack.Group(g)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pack.ReadGroup(packed)
	if err != nil || !reflect.DeepEqual(got, g) {
		t.Errorf("%v\n got %+v\nwant %+v", err, got, g)
	}
}

func FuzzRead(f *testing.F) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 4 {
		packed, err := pack.Group(randomGroup(rng))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packed)
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if g, err := pack.ReadGroup(b); err == nil {
			again(t, g)
		} else if !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("group: %v", err)
		}
		for _, read := range []func([]byte) error{
			func(b []byte) error { _, err := pack.ReadEpisode(b); return err },
			func(b []byte) error { _, err := pack.Load(b); return err },
			func(b []byte) error { _, err := pack.ReadBytes(b); return err },
		} {
			if err := read(b); err != nil && !errors.Is(err, pack.ErrCorrupt) {
				t.Error(err)
			}
		}
	})
}

// again checks that what was read from somewhere can be written and read once more.
func again(t *testing.T, g *rollout.Group) {
	t.Helper()
	packed, err := pack.Group(g)
	if err != nil {
		t.Fatal(err)
	}
	back, err := pack.ReadGroup(packed)
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(g)
	if err != nil {
		return // not a number: nothing to compare by
	}
	got, err := json.Marshal(back)
	if err != nil || string(got) != string(want) {
		t.Errorf("%v\n got %s\nwant %s", err, got, want)
	}
}

func randomGroup(rng *rand.Rand) *rollout.Group {
	ref := rollout.GroupRef{Run: "demo", Seq: rollout.GroupSeq(rng.IntN(1000))}
	return &rollout.Group{
		Ref: ref, MinVersion: 3, MaxVersion: 4, Samples: rng.IntN(8), Failed: rng.IntN(2),
		Times: rollout.GroupTimes{LaunchedAt: randomTime(rng), StartedAt: randomTime(rng), ReadyAt: randomTime(rng)},
		Usage: rollout.Usage{
			Requests: rng.Int64(), InputTokens: rng.Int64(), OutputTokens: rng.Int64(), CachedTokens: rng.Int64(),
			ExecSec: rng.Float64(), QueueSec: rng.Float64(), RepeatedTokens: rng.Int64(),
		},
		EpisodeSec: randomFloats(rng), ModelSec: randomFloats(rng), QueueSec: randomFloats(rng), EnvSec: randomFloats(rng),
		Phases: randomInts(rng), Trajectories: randomTrajectories(rng, ref),
	}
}

func randomEpisode(rng *rand.Rand) rollout.Episode {
	ref := rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "demo", Seq: 7}, Sample: rng.IntN(6)}
	counts := map[string]int64(nil)
	if n := rng.IntN(4); n > 0 {
		counts = map[string]int64{}
		for i := range n {
			counts[fmt.Sprintf("orders_%d", i)] = rng.Int64()
		}
	}
	return rollout.Episode{
		Ref: ref, Counts: counts, Trajectories: randomTrajectories(rng, ref.GroupRef), Phases: rng.IntN(30),
		Truncated: rng.IntN(2) == 0,
		StartedAt: randomTime(rng), FinishedAt: randomTime(rng), EnvSec: rng.Float64(), ModelSec: rng.Float64(),
		QueueSec: rng.Float64(), Usage: rollout.Usage{Requests: rng.Int64()}, Attempts: rng.IntN(4),
	}
}

func randomTrajectories(rng *rand.Rand, ref rollout.GroupRef) []rollout.Trajectory {
	ts := make([]rollout.Trajectory, rng.IntN(6))
	for i := range ts {
		t := &ts[i]
		t.Sample, t.Agent = rng.IntN(3), []string{"AUSTRIA", "TURKEY"}[rng.IntN(2)]
		t.ID = rollout.EpisodeRef{GroupRef: ref, Sample: t.Sample}.TrajectoryID(t.Agent)
		if rng.IntN(4) == 0 {
			t.ID = "own id"
		}
		t.Reward, t.Advantage, t.Truncated = rng.Float64(), rng.NormFloat64(), rng.IntN(2) == 0
		t.Turns = make([]rollout.Turn, rng.IntN(4))
		for j := range t.Turns {
			t.Turns[j] = randomTurn(rng)
		}
	}
	return ts
}

func randomTurn(rng *rand.Rand) rollout.Turn {
	t := rollout.Turn{
		Phase: "S1901M", PolicyVersion: rollout.PolicyVersion(rng.IntN(9)), Engine: "e-0", FinishReason: rollout.FinishStop,
		Reward: rng.Float64(), Text: []string{"", "A PAR - BUR"}[rng.IntN(2)],
		PromptTokenIDs: make([]int32, 20+rng.IntN(20)), TokenIDs: make([]int32, rng.IntN(9)),
	}
	for i := range t.PromptTokenIDs {
		t.PromptTokenIDs[i] = int32(100 + i/(10+rng.IntN(2)*rng.IntN(10)))
	}
	t.Constraint = []rollout.Constraint{
		{}, {Kind: rollout.RegexConstraint, Pattern: "A PAR (H|D)\n"},
		{Kind: rollout.ChoiceConstraint, Choices: []string{"a1", "b2"}},
	}[rng.IntN(3)]
	t.Logprobs = make([]float32, len(t.TokenIDs))
	for i := range t.TokenIDs {
		t.TokenIDs[i], t.Logprobs[i] = rng.Int32N(150_000), -rng.Float32()
	}
	if rng.IntN(4) > 0 {
		t.Timing = randomTiming(rng)
	}
	return t
}

// randomTiming is a timing to the millisecond, as groups keep it.
func randomTiming(rng *rand.Rand) rollout.Timing {
	t := rollout.Timing{QueueSec: float64(rng.IntN(1_000)) / 1e3, ExecSec: float64(rng.IntN(100_000)) / 1e3, Attempts: 1}
	for range max(0, rng.IntN(6)-3) {
		t.Attempts++
		t.Fail(rollout.RequestFailure{Engine: rollout.EngineID([]string{"e-0", "e-1"}[rng.IntN(2)]),
			Code: []rollout.Code{rollout.CodeTimeout, rollout.CodeEngineGone, ""}[rng.IntN(3)],
			Sec:  float64(rng.IntN(9_000)) / 1e3})
	}
	return t
}

func randomFloats(rng *rand.Rand) []float64 {
	v := make([]float64, rng.IntN(4))
	for i := range v {
		v[i] = rng.ExpFloat64()
	}
	return v
}

func randomInts(rng *rand.Rand) []int {
	v := make([]int, rng.IntN(4))
	for i := range v {
		v[i] = rng.IntN(60)
	}
	return v
}

func randomTime(rng *rand.Rand) time.Time {
	if rng.IntN(4) == 0 {
		return time.Time{}
	}
	return time.Unix(rng.Int64N(4e9), rng.Int64N(1e9)).UTC()
}
