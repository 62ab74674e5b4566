package share_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/engine/share"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// ready is engines that serve model m, with these limits.
func ready(limits ...int) []enginestate.Engine {
	var engines []enginestate.Engine
	for i, limit := range limits {
		id := rollout.EngineID(fmt.Sprintf("e%02d", i))
		engines = append(engines, enginestate.Engine{ID: id, State: enginestate.EngineReady, MaxInFlight: limit,
			Models: []string{"m"}})
	}
	return engines
}

// asks is a member that wants so many requests of run r for each group.
func asks(worker string, groups map[rollout.GroupSeq]int) share.Member {
	return share.Member{Worker: worker, Demand: []enginestate.RunDemand{of("r", groups)}}
}

func of(run rollout.RunName, groups map[rollout.GroupSeq]int) enginestate.RunDemand {
	d := enginestate.RunDemand{Run: run, Model: "m"}
	for _, seq := range slices.Sorted(maps.Keys(groups)) {
		d.Groups = append(d.Groups, enginestate.GroupDemand{Seq: seq, Requests: groups[seq]})
	}
	return d
}

type groups = map[rollout.GroupSeq]int

// totals is every member's slots in all, in order of the members.
func totals(d share.Division, members []share.Member) []int {
	out := make([]int, len(members))
	for i, m := range members {
		for _, p := range d.Pools {
			out[i] += p.Total[m.Worker]
		}
	}
	return out
}

func TestDivide(t *testing.T) {
	t.Parallel()
	idle := func(w string) share.Member { return share.Member{Worker: w} }
	for _, tt := range []struct {
		name    string
		engines []enginestate.Engine
		members []share.Member
		most    map[rollout.RunName]int
		want    []int
	}{
		{"alone and idle", ready(8, 5), []share.Member{idle("a")}, nil, []int{13}},
		{"nobody wants any", ready(8, 8), []share.Member{idle("a"), idle("b")}, nil, []int{8, 8}},
		{"enough for all", ready(50, 50), []share.Member{asks("a", groups{1: 30}), idle("b")}, nil, []int{65, 35}},
		{"the idle give way", ready(50, 50), []share.Member{asks("a", groups{1: 500}), idle("b")}, nil,
			[]int{100, 0}},
		{"equals", ready(50, 50), []share.Member{asks("a", groups{1: 500}), asks("b", groups{1: 500})}, nil,
			[]int{50, 50}},
		{"the older first, but for an eighth of an equal share", ready(80, 80),
			[]share.Member{asks("a", groups{7: 500}), asks("b", groups{1: 500})}, nil, []int{10, 150}},
		{"a cut through a group", ready(60), []share.Member{asks("a", groups{1: 20, 2: 30}),
			asks("b", groups{1: 10, 2: 90})}, nil, []int{35, 25}},
		{"one run's requests do not wait for another's", ready(100), []share.Member{
			{Worker: "a", Demand: []enginestate.RunDemand{of("x", groups{1: 900})}},
			{Worker: "b", Demand: []enginestate.RunDemand{of("y", groups{400: 30})}},
		}, nil, []int{70, 30}},
		{"two runs on two workers", ready(90), []share.Member{
			{Worker: "a", Demand: []enginestate.RunDemand{of("x", groups{1: 900}), of("z", groups{1: 300})}},
			{Worker: "b", Demand: []enginestate.RunDemand{of("y", groups{1: 900})}},
		}, nil, []int{60, 30}},
		{"a run's own limit", ready(50, 50), []share.Member{
			{Worker: "a", Demand: []enginestate.RunDemand{of("x", groups{1: 900})}},
			{Worker: "b", Demand: []enginestate.RunDemand{of("y", groups{1: 300})}},
		}, map[rollout.RunName]int{"x": 10}, []int{20, 80}},
		{"more workers than slots", ready(1, 1), []share.Member{asks("a", groups{3: 4}), asks("b", groups{2: 1}),
			asks("c", groups{1: 1})}, nil, []int{0, 1, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := totals(share.Divide(tt.engines, tt.members, tt.most), tt.members); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestModelsDecideWhatASlotIsGoodFor: a worker gets slots of the engines that serve its requests.
func TestModelsDecideWhatASlotIsGoodFor(t *testing.T) {
	t.Parallel()
	engines := ready(10, 10, 10)
	engines[0].Models, engines[2].Models = []string{"n"}, []string{"n", "m"}
	n := of("x", groups{1: 100})
	n.Model = "n"
	members := []share.Member{{Worker: "a", Demand: []enginestate.RunDemand{n}}, asks("b", groups{1: 100})}
	d := share.Divide(engines, members, nil)
	got := map[string]map[rollout.EngineID]int{"a": {}, "b": {}}
	for _, p := range d.Pools {
		for w, shares := range p.Shares {
			maps.Copy(got[w], shares)
		}
	}
	want := map[string]map[rollout.EngineID]int{
		"a": {"e00": 10, "e01": 0, "e02": 5}, "b": {"e00": 0, "e01": 10, "e02": 5},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
}

// drawn is a fleet and its workers.
type drawn struct {
	engines []enginestate.Engine
	members []share.Member
	most    map[rollout.RunName]int
}

func draw(rnd *rand.Rand) drawn {
	d := drawn{most: map[rollout.RunName]int{}}
	models := []string{"m", "n"}[:1+rnd.IntN(2)]
	for i := range 1 + rnd.IntN(9) {
		e := enginestate.Engine{ID: rollout.EngineID(fmt.Sprintf("e%02d", i)), State: enginestate.EngineReady,
			MaxInFlight: 1 + rnd.IntN(1<<rnd.IntN(9)), Models: models[:1]}
		if rnd.IntN(3) > 0 {
			e.Adapters = models
		}
		if rnd.IntN(8) == 0 {
			e.State = enginestate.EngineLost
		}
		d.engines = append(d.engines, e)
	}
	for i := range 1 + rnd.IntN(1<<rnd.IntN(6)) {
		m := share.Member{Worker: fmt.Sprintf("w%02d", i)}
		for run := range rnd.IntN(4) {
			q := enginestate.RunDemand{Run: rollout.RunName(fmt.Sprintf("r%d", run)), Model: models[rnd.IntN(len(models))]}
			seq := rnd.IntN(40)
			for range rnd.IntN(5) {
				seq += 1 + rnd.IntN(20)
				q.Groups = append(q.Groups, enginestate.GroupDemand{Seq: rollout.GroupSeq(seq),
					Requests: rnd.IntN(1 << rnd.IntN(8))})
			}
			m.Demand = append(m.Demand, q)
		}
		d.members = append(d.members, m)
	}
	if rnd.IntN(3) == 0 {
		d.most["r1"] = 1 + rnd.IntN(9)
	}
	return d
}

// FuzzDivide holds Divide to its promises: shares add up, nobody starves, equals get the same, more demand never brings
// less, and the order of the arguments does not matter.
func FuzzDivide(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		in := draw(rnd)
		d := share.Divide(in.engines, in.members, in.most)
		addsUp(t, in, d)
		for _, p := range d.Pools {
			nobodyStarves(t, &p)
		}
		turned := drawn{slices.Clone(in.engines), slices.Clone(in.members), in.most}
		rnd.Shuffle(len(turned.engines), func(i, j int) {
			turned.engines[i], turned.engines[j] = turned.engines[j], turned.engines[i]
		})
		rnd.Shuffle(len(turned.members), func(i, j int) {
			turned.members[i], turned.members[j] = turned.members[j], turned.members[i]
		})
		if again := share.Divide(turned.engines, turned.members, in.most); !reflect.DeepEqual(d, again) {
			t.Fatalf("in another order: %+v, not %+v", again, d)
		}
		equalsGetTheSame(t, rnd, in)
		moreDemandNeverBringsLess(t, rnd, in)
	})
}

func addsUp(t *testing.T, in drawn, d share.Division) {
	t.Helper()
	sums := map[rollout.EngineID]int{}
	for _, p := range d.Pools {
		total := 0
		for w, shares := range p.Shares {
			mine := 0
			for id, n := range shares {
				if n < 0 {
					t.Fatalf("%s has %d slots of %s", w, n, id)
				}
				sums[id] += n
				mine += n
			}
			if mine != p.Total[w] {
				t.Fatalf("%s has %d slots, of %d due to it", w, mine, p.Total[w])
			}
			total += mine
		}
		if total != p.Slots {
			t.Fatalf("%d slots are given out of %d", total, p.Slots)
		}
	}
	for _, e := range in.engines {
		if want := e.MaxInFlight; e.State == enginestate.EngineReady && sums[e.ID] != want {
			t.Fatalf("%s: shares add up to %d, not to %d", e.ID, sums[e.ID], want)
		}
	}
}

func nobodyStarves(t *testing.T, p *share.Pool) {
	t.Helper()
	asking := 0
	for _, n := range p.Demand {
		if n > 0 {
			asking++
		}
	}
	if asking == 0 || asking > p.Slots {
		return
	}
	for w, n := range p.Demand {
		if least := min(n, max(1, p.Slots/(8*asking))); p.Total[w] < least {
			t.Fatalf("%s has %d of %d slots, and %d requests; want %d", w, p.Total[w], p.Slots, n, least)
		}
	}
}

// equalsGetTheSame adds a worker that is like another one.
func equalsGetTheSame(t *testing.T, rnd *rand.Rand, in drawn) {
	t.Helper()
	twin := in.members[rnd.IntN(len(in.members))]
	name := twin.Worker
	twin.Worker = "z-twin"
	members := append(slices.Clone(in.members), twin)
	d := share.Divide(in.engines, members, in.most)
	for _, p := range d.Pools {
		if a, b := p.Total[name], p.Total["z-twin"]; len(d.Pools) == 1 && (a-b > 1 || b-a > 1) {
			t.Fatalf("equal workers have %d and %d of %d slots", a, b, p.Slots)
		}
	}
}

func moreDemandNeverBringsLess(t *testing.T, rnd *rand.Rand, in drawn) {
	t.Helper()
	before := share.Divide(in.engines, in.members, in.most)
	members := slices.Clone(in.members)
	m := &members[rnd.IntN(len(members))]
	if len(m.Demand) == 0 || len(before.Pools) != 1 {
		return
	}
	m.Demand = slices.Clone(m.Demand)
	q := &m.Demand[rnd.IntN(len(m.Demand))]
	q.Groups = append(slices.Clone(q.Groups),
		enginestate.GroupDemand{Seq: rollout.GroupSeq(rnd.IntN(100)), Requests: 1 + rnd.IntN(9)})
	after := share.Divide(in.engines, members, in.most)
	was, is := before.Pools[0].Total[m.Worker], after.Pools[0].Total[m.Worker]
	if is < was-1 { // what cannot be divided may go to another one
		t.Fatalf("%s had %d of %d slots, and %d with more requests", m.Worker, was, before.Pools[0].Slots, is)
	}
}
