package runmachine

import (
	"slices"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// Adapter is the weights of one policy version, under the name by which engines serve them.
type Adapter struct {
	Version rollout.PolicyVersion
	Name    string
	Path    string
	Digest  string // of its files; empty: not known
}

// publication is one wish to publish, under way.
type publication struct {
	adapter  Adapter
	by       rollout.TrainerGeneration
	notes    []string
	replaced error // what is told when other weights took its version; nil: none did
	fenced   bool  // its trainer was replaced before these weights served
	switched bool  // new games may use it: it cannot be replaced any more
	outdated bool  // it was begun in a state of the run that Temporal had restored
}

// ValidatePublication reports why a version cannot be published now, as far as that can be said without a look at its
// files.
func (m *Machine) ValidatePublication(v rollout.PolicyVersion, path string) error {
	if m.State.Over() {
		return rollout.Refuse(rollout.RunOver, "run %s is %s; it takes no more versions", m.Spec.Name, m.State)
	}
	if _, err := m.Spec.Adapters.Clean(path); err != nil {
		return err
	}
	if m.Policy(v) == nil && v != m.Version+1 {
		return rollout.Refuse(rollout.OutOfOrder,
			"version %d does not follow %d; the next version to publish is %d", v, m.Version, m.Version+1)
	}
	return nil // one that is known is compared by its weights, or gets another try
}

// NeverServed reports whether a version may still get other weights, which are then to be compared.
func (m *Machine) NeverServed(v rollout.PolicyVersion) bool {
	known := m.Policy(v)
	return known == nil || known.State == runstatus.PolicyLoading || known.State == runstatus.PolicyRejected
}

// Blocked reports whether an Await is not over yet.
func (m *Machine) Blocked(id CommandID) bool {
	blocked := m.blocked[id]
	return blocked != nil && blocked()
}

// await takes the next step when blocked no longer holds.
func (m *Machine) await(blocked func() bool, then func()) {
	id := ask(m, Await{}, func(Done) { then() })
	m.blocked[id] = blocked
}

// publish has an adapter inspected, brings it on the engines, and switches to it. Publishing the same weights again
// changes nothing; other weights under a version are refused, unless it never served. A bad adapter changes nothing in
// the run.
func (m *Machine) publish(ev PublishAsked) {
	if m.repeated(ev.ID) {
		return
	}
	path := ev.Path
	if clean, err := m.Spec.Adapters.Clean(path); err == nil {
		path = clean
	}
	p := &publication{
		adapter: Adapter{Version: ev.Version, Name: ev.Version.Adapter(m.Spec.Name), Path: path}, by: ev.Generation,
	}
	m.inspect(p)
}

// inspect has an adapter judged. A run that is behind its account takes no version before it has caught up.
func (m *Machine) inspect(p *publication) {
	ask(m, Inspect{Adapter: p.adapter, Newest: m.newest()}, func(r Inspected) {
		switch {
		case r.Ahead > m.newest():
			m.needsSync = true
			m.answer(runstatus.Policy{}, rollout.Behind(m.Spec.Name, p.adapter.Version))
		case r.Ahead > 0: // it was published since
			m.inspect(p)
		case r.Fault != nil:
			m.unfit(p, *r.Fault)
		default:
			p.adapter.Digest, p.notes = r.Digest, r.Notes
			m.compare(p)
		}
	})
}

// unfit refuses an adapter that could not be inspected. Only a fault of a version that is not in use is remembered.
func (m *Machine) unfit(p *publication, f Fault) {
	v := p.adapter.Version
	known := m.Policy(v)
	refuse := func() { m.answer(runstatus.Policy{}, refusal(v, f)) }
	if f.Code != rollout.Invalid || v != m.Version+1 || known != nil && known.State != runstatus.PolicyRejected {
		refuse()
		return
	}
	policy := m.enter(p)
	policy.State, policy.Reason = runstatus.PolicyRejected, f.Text
	m.report(*policy, refuse)
}

// compare holds an adapter that is fit against what is published under its version.
func (m *Machine) compare(p *publication) {
	v := p.adapter.Version
	if err := m.ValidatePublication(v, p.adapter.Path); err != nil {
		m.answer(runstatus.Policy{}, err)
		return
	}
	known, under := m.Policy(v), m.publishing[v]
	if known == nil || known.State == runstatus.PolicyRejected {
		m.bring(p)
		return
	}
	loading := known.State == runstatus.PolicyLoading
	err := sameWeights(*known, p.adapter, max(known.Version, m.Version)+1)
	switch {
	case err == nil && loading && under == nil: // it waits for engines
		m.bring(p)
	case err == nil:
		m.join(v)
	case under != nil && under.switched && p.by > under.by: // it fails if its trainer was replaced
		m.await(func() bool { return m.publishing[v] == under }, func() { m.compare(p) })
	case !loading || under != nil && under.switched:
		m.answer(*known, err)
	case under != nil && p.by > 0 && p.by < under.by:
		m.answer(runstatus.Policy{}, published(v, p, under))
	case under == nil:
		m.do(Unload{Adapter: known.Adapter, Everywhere: true}, func() { m.bring(p) })
	default:
		under.replaced = published(v, under, p)
		m.stopLoading(v, func() {
			m.await(func() bool { return m.publishing[v] == under }, func() { m.compare(p) })
		})
	}
}

// sameWeights refuses other weights under a version that is published. Without digests the path decides.
func sameWeights(known runstatus.Policy, a Adapter, next rollout.PolicyVersion) error {
	same := known.Path == a.Path
	if known.Digest != "" && a.Digest != "" {
		same = known.Digest == a.Digest
	}
	if same {
		return nil
	}
	return rollout.Refuse(rollout.Conflict,
		"version %d is %s with other weights: %s from %s, and not %s from %s; "+
			"a version never changes its weights: publish these as version %d, from a directory of their own",
		a.Version, known.State, runspec.ShortDigest(known.Digest), known.Path, runspec.ShortDigest(a.Digest), a.Path, next)
}

func (m *Machine) stopLoading(v rollout.PolicyVersion, next func()) {
	if m.publishing[v] == nil {
		next()
		return
	}
	m.do(StopLoading{Version: v}, next)
}

// bring loads an adapter that is fit on the engines and switches to it. While that cannot be done for want of engines
// it stays as it is, loading, until it is published again.
func (m *Machine) bring(p *publication) {
	m.publishing[p.adapter.Version] = p
	m.enter(p)
	ask(m, Load{Adapter: p.adapter}, func(r Loaded) {
		p.notes = slices.Concat(p.notes, r.Notes)
		if r.Digest != "" {
			p.adapter.Digest = r.Digest
		}
		switch {
		case p.outdated:
			m.endOutdated(p)
		case p.replaced != nil:
			m.giveWay(p, p.replaced)
		case r.Fault == nil && !m.overtaken():
			p.switched = true
			ask(m, Switch{Adapter: p.adapter, Generation: p.by}, func(s Switched) {
				if p.outdated {
					m.endOutdated(p)
					return
				}
				if p.fenced = s.Fault != nil && s.Fault.Code == rollout.Fenced; p.fenced {
					m.giveWay(p, refusal(p.adapter.Version, *s.Fault))
					return
				}
				m.withdraw(p, r.Seconds, s.Fault)
			})
		default:
			m.withdraw(p, r.Seconds, r.Fault)
		}
	})
}

// overtaken reports whether the run has ended while a version was published.
func (m *Machine) overtaken() bool { return m.State.Over() }

// enter notes a version that is being published, in place of what was known of it. One that waits for engines still
// says for what, and since when.
func (m *Machine) enter(p *publication) *runstatus.Policy {
	a := p.adapter
	policy := runstatus.Policy{
		Version: a.Version, Adapter: a.Name, Path: a.Path, Digest: a.Digest, State: runstatus.PolicyLoading,
		PublishedAt: m.now,
	}
	if was := m.Policy(a.Version); was != nil && was.State == runstatus.PolicyLoading && was.Path == a.Path {
		policy.Reason, policy.PublishedAt = was.Reason, was.PublishedAt
	}
	m.remove(a.Version)
	m.Policies = append(m.Policies, policy)
	m.untold = true
	return m.Policy(a.Version)
}

func (m *Machine) remove(v rollout.PolicyVersion) {
	m.Policies = slices.DeleteFunc(m.Policies, func(q runstatus.Policy) bool { return q.Version == v })
}

// giveWay ends a publication as if it had never been: its weights or its trainer were replaced before they served.
func (m *Machine) giveWay(p *publication, why error) {
	v := p.adapter.Version
	m.do(Unload{Adapter: p.adapter.Name}, func() {
		m.remove(v)
		delete(m.publishing, v)
		m.answer(runstatus.Policy{}, why)
	})
}

// published is why a version is not one publication's but another's: its trainer was replaced by the other's, or both
// are of one.
func published(v rollout.PolicyVersion, p, other *publication) error {
	if p.by > 0 && p.by < other.by {
		return refusal(v, Fault{Code: rollout.Fenced, Text: "another process publishes it"})
	}
	return rollout.Refuse(rollout.Conflict, "version %d was published with other weights before these served", v)
}

// withdraw takes a version from the engines that is not to be used, unless it only waits for engines.
func (m *Machine) withdraw(p *publication, seconds map[rollout.EngineID]float64, f *Fault) {
	if m.overtaken() || f != nil && f.Code != rollout.Unavailable {
		m.do(Unload{Adapter: p.adapter.Name}, func() { m.conclude(p, seconds, f) })
		return
	}
	m.conclude(p, seconds, f)
}

// conclude records a publication's outcome, and reports it.
func (m *Machine) conclude(p *publication, seconds map[rollout.EngineID]float64, f *Fault) {
	v := p.adapter.Version
	policy := m.Policy(v)
	policy.LoadSec, policy.Digest, policy.Notes = seconds, p.adapter.Digest, p.notes
	switch {
	case m.overtaken():
		policy.State, policy.Reason = runstatus.PolicyRejected, "the run is over"
		m.retire(v, func() { // it may be wanted already
			delete(m.publishing, v)
			m.answer(runstatus.Policy{}, m.ValidatePublication(v, p.adapter.Path))
		})
		return
	case f == nil:
		policy.State, policy.Reason = runstatus.PolicyServing, ""
		if v > m.Version {
			m.offer(m.Version)
		}
		m.Version = max(m.Version, v)
		m.Failing = 0 // groups may have failed for want of it
	case f.Code == rollout.Unavailable:
		policy.Reason = "waits for engines: " + f.Text
	default:
		policy.State, policy.Reason = runstatus.PolicyRejected, f.Text
	}
	answer := *policy
	m.report(answer, func() {
		delete(m.publishing, v)
		if f != nil {
			m.answer(answer, refusal(v, *f))
			return
		}
		m.answer(answer, nil)
	})
}

// keptPolicies bounds how many retired or rejected versions a status shows.
const keptPolicies = 8

// report reports a publication's outcome to readers, and forgets the oldest versions that no longer serve.
func (m *Machine) report(policy runstatus.Policy, next func()) {
	surplus := len(m.Policies) - keptPolicies
	m.Policies = slices.DeleteFunc(m.Policies, func(p runstatus.Policy) bool {
		if surplus <= 0 || p.State == runstatus.PolicyServing || p.State == runstatus.PolicyLoading {
			return false
		}
		surplus--
		return true
	})
	m.untold = true
	m.do(ReportPolicy{Policy: policy}, next)
}

// refusal tells the trainer why a version was not published, and what to do.
func refusal(v rollout.PolicyVersion, f Fault) error {
	switch f.Code {
	case rollout.Unavailable:
		return rollout.Refuse(f.Code,
			"version %d does not serve yet, through no fault of the adapter: %s; publish version %d again to go on",
			v, f.Text, v)
	case rollout.Conflict, rollout.Fenced:
		return rollout.Refuse(f.Code, "version %d was not published and nothing has changed: %s", v, f.Text)
	default:
		return rollout.Refuse(rollout.Invalid,
			"version %d was not published and nothing has changed: %s; fix the adapter and publish version %d again",
			v, f.Text, v)
	}
}

// join waits for an earlier publication of the same version.
func (m *Machine) join(v rollout.PolicyVersion) {
	under := m.publishing[v]
	blocked := func() bool {
		p := m.Policy(v)
		return p != nil && p.State == runstatus.PolicyLoading && (under == nil || m.publishing[v] == under)
	}
	m.await(blocked, func() {
		p := m.Policy(v)
		switch {
		case under != nil && under.replaced != nil:
			m.answer(runstatus.Policy{}, under.replaced)
		case under != nil && under.fenced:
			m.answer(runstatus.Policy{}, refusal(v, Fault{Code: rollout.Unavailable,
				Text: "it was published by a trainer that was replaced"}))
		case p == nil:
			m.answer(runstatus.Policy{}, rollout.Refuse(rollout.Conflict, "version %d is long retired", v))
		case p.State == runstatus.PolicyRejected:
			m.answer(*p, rollout.Refuse(rollout.Invalid, "version %d was rejected: %s", v, p.Reason))
		case p.State == runstatus.PolicyLoading:
			m.answer(*p, rollout.Refuse(rollout.Unavailable,
				"version %d does not serve yet: %s; publish it again to go on", v, p.Reason))
		default:
			m.answer(*p, nil)
		}
	})
}

func (m *Machine) answer(policy runstatus.Policy, err error) {
	m.do(AnswerPublication{Policy: policy, Err: err}, func() {})
}
