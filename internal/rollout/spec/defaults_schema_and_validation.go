package spec

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// Table is every key of a run spec, in the order in which people write them.
func Table() settings.Table { return keys }

// Live is the keys that a running run takes another value of.
func Live() []settings.Key {
	return slices.DeleteFunc(slices.Clone(keys.Keys), func(k settings.Key) bool { return !k.Live })
}

// Schema is the JSON schema of run specs, for editors.
func Schema() []byte {
	defaults := Default()
	return keys.Schema("Millrace run spec", &defaults)
}

// ChangeSchema is the JSON schema of a Change, without its type.
func ChangeSchema() map[string]any {
	return keys.PatchSchema(Live(), &runspec.Spec{}, map[string]any{"paused": map[string]any{"type": "boolean",
		"description": "true launches nothing more; what is in flight finishes and may be claimed"}})
}

// Default is what a run spec says where it says nothing. Name, model, steps and the environment have no default, and
// min_samples follows samples.
func Default() runspec.Spec {
	var s runspec.Spec
	keys.SetDefaults(&s)
	return s
}

// Complete gives a spec that was read what follows from its other keys.
func Complete(s *runspec.Spec, given func(path string) bool) {
	if s.Group.MinSamples == 0 && !given("group.min_samples") {
		s.Group.MinSamples = followed(s.Group.Samples)
	}
}

// followed is min_samples where nothing is said of it. Samples out of bounds are the fault of samples alone.
func followed(samples int) int { return min(max(samples, 1), runspec.MaxEpisodes) }

// Validate reports everything wrong with a spec but the options of its environment, which only the environment knows.
func Validate(s runspec.Spec, reading settings.Reading) settings.Faults {
	faults := keys.Check(&s, reading)
	reading.Faults = slices.Concat(reading.Faults, faults)
	c := &checker{reading: reading}
	c.spec(&s)
	return append(faults, c.faults...)
}

// bufferKeys is the rows by which the buffer gives out batches. They have no upper bounds: a run that an earlier
// version let beyond one goes on.
func bufferKeys() settings.Table {
	var rows []settings.Key
	for _, key := range keys.Keys {
		if key.Path == "steps" || strings.HasPrefix(key.Path, "buffer.") {
			key.Max = nil
			rows = append(rows, key)
		}
	}
	return settings.Table{Keys: rows}
}

// ValidateBuffer reports what is wrong with the part of a spec by which the buffer gives out batches.
func ValidateBuffer(b runspec.BufferSpec, steps int) error {
	s := runspec.Spec{Buffer: b, Steps: steps}
	keys.FillWords(&s)
	if faults := bufferKeys().Check(&s, settings.Reading{}); len(faults) > 0 {
		return rollout.Refuse(rollout.Invalid, "%v", faults)
	}
	return nil
}

// BufferFields is the keys by which the buffer gives out batches, and their values, under the names that scripts have
// for them: every key below buffer, and steps.
func BufferFields(b runspec.BufferSpec, steps int) []any {
	s := runspec.Spec{Buffer: b, Steps: steps}
	keys.FillWords(&s)
	var fields []any
	for _, key := range bufferKeys().Keys {
		fields = append(fields, strings.TrimPrefix(key.Path, "buffer."), key.Text(&s))
	}
	return fields
}

// checker holds a spec to the rules that concern more than one key, or more than a number.
type checker struct {
	reading settings.Reading
	faults  settings.Faults
}

// fail reports a fault, unless the key has one already.
func (c *checker) fail(when bool, path, format string, args ...any) {
	if when && c.sound(path) {
		c.faults.Add(path, format, args...)
	}
}

// sound reports whether keys have no fault, so that another one may be compared with them.
func (c *checker) sound(paths ...string) bool {
	return !slices.ContainsFunc(paths, func(path string) bool {
		return c.reading.Faults.Has(path) || c.faults.Has(path)
	})
}

func (c *checker) spec(s *runspec.Spec) {
	if err := s.Name.Validate(); err != nil {
		c.fail(s.Name != "", "name", "%v", err)
	}
	c.model("model", s.Model)
	c.group(s.Group)
	b := s.Buffer
	c.fail(c.sound("buffer.groups_per_step") && b.Outstanding() > runspec.MaxOutstanding, "buffer.depth",
		"%d times groups_per_step %d is %d outstanding groups; %d is the most",
		b.Depth, b.GroupsPerStep, b.Outstanding(), runspec.MaxOutstanding)
	c.fail(!strings.HasPrefix(s.Adapters.PathPrefix, "/"), "adapters.path_prefix",
		"%q is not an absolute path", s.Adapters.PathPrefix)
	c.adapter(s, "adapters.initial", s.Adapters.Initial)
	c.policies(s)
	c.timeouts(s.Timeouts)
}

func (c *checker) group(g runspec.GroupSpec) {
	c.fail(c.sound("group.samples") && g.MinSamples > g.Samples, "group.min_samples",
		"%d is more than group.samples, which is %d", g.MinSamples, g.Samples)
	drop := g.ZeroVariance == runspec.DropZeroVariance
	c.fail(c.sound("group.samples", "group.min_samples") && drop && g.MinSamples < 2, "group.zero_variance",
		"drop needs group.min_samples of 2 or more, not %d: a single episode has no variance, "+
			"so that every group would be dropped", g.MinSamples)
	c.fail(c.sound("group.samples") && g.Samples+g.Oversample > runspec.MaxEpisodes, "group.oversample",
		"%d beyond group.samples %d is more than %d episodes", g.Oversample, g.Samples, runspec.MaxEpisodes)
}

func (c *checker) timeouts(t runspec.Timeouts) {
	const longer = "%v is longer than timeouts.episode, which is %v"
	episode := c.sound("timeouts.episode")
	c.fail(episode && t.Completion > t.Episode, "timeouts.completion", longer, t.Completion, t.Episode)
	c.fail(episode && t.Phase > t.Episode, "timeouts.phase", longer, t.Phase, t.Episode)
	c.fail(c.sound("timeouts.completion") && t.Phase > 0 && t.Phase < t.Completion, "timeouts.phase",
		"%v is shorter than timeouts.completion, which is %v", t.Phase, t.Completion)
	c.fail(episode && t.Heartbeat > t.Episode, "timeouts.heartbeat", longer, t.Heartbeat, t.Episode)
}

func (c *checker) model(at, name string) {
	c.fail(strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }), at,
		"%q: a model's name has no spaces and only printable ASCII", name)
	c.fail(len(name) > maxModelBytes, at, "a name of %d characters; %d are the most", len(name), maxModelBytes)
}

// policyName keeps names usable in the names of adapters.
var policyName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

func (c *checker) policies(s *runspec.Spec) {
	if n := len(s.Policies); n > maxPolicies {
		c.faults.Add("policies", "%d policies; a run may have %d, for every engine loads them all", n, maxPolicies)
		return
	}
	seen := map[string]int{}
	for i, p := range s.Policies {
		at := fmt.Sprintf("policies[%d]", i)
		switch first, again := seen[p.Name]; {
		case p.Name == "":
		case !policyName.MatchString(p.Name):
			c.faults.Add(at+".name", "%q: use up to 40 letters, digits, '_' and '-'", p.Name)
		case again:
			c.faults.Add(at+".name", "the same as policies[%d].name", first)
		}
		c.fail(s.Adapters.Initial != "" && p.Name == runspec.InitialPolicy, at+".name",
			"%q is what adapters.initial is called; name the policy otherwise", p.Name)
		c.adapter(s, at+".path", p.Path)
		c.elsewhere(at, p)
		_, version := rollout.VersionOfPlayer(p.Name)
		c.fail(s.League.Slots > 0 && version, at+".name", "%q is what a version of the league is called; name it otherwise",
			p.Name)
		seen[p.Name] = i
	}
	c.fail(s.League.Slots == 0 && s.Environment.HasLeague(), "league.slots",
		"an opponent is %s, and no version is kept for it: set league.slots to at least 1", runspec.LeagueOpponent)
	c.fail(s.League.Slots > 0 && !s.Environment.HasLeague(), "league.slots",
		"no opponent in the environment's options is %s: the versions that it keeps would play nowhere",
		runspec.LeagueOpponent)
	c.fail(s.League.BotShare > 0 && s.League.Bot == "", "league.bot", "is missing: league.bot_share needs it")
}

// elsewhere checks how a policy that no engine serves is reached.
func (c *checker) elsewhere(at string, p runspec.FixedPolicy) {
	if p.URL == "" {
		c.fail(p.Model != "", at+".url", "is missing: where model %q is; without model, too, the policy is the base model",
			p.Model)
		c.fail(p.MaxTokens > 0 && p.Model == "", at+".max_tokens",
			"is of a policy with url; sampling.max_tokens holds for others")
		return
	}
	u, err := url.Parse(p.URL)
	c.fail(err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "", at+".url",
		"is not the base of a chat API, such as https://api.openai.com/v1")
	c.fail(err == nil && (u.User != nil || u.RawQuery != "" || u.Fragment != ""), at+".url",
		"only scheme, host, port and path belong into it; the API's key stands in the workers' engine_urls.keys_file")
	c.fail(p.Path != "", at+".path", "the policy has a url, and no engine loads an adapter for it: leave one out")
	c.fail(p.Model == "", at+".model", "is missing: what the API at url calls the model")
	c.model(at+".model", p.Model)
}

// adapter checks the path of an adapter, where there is one.
func (c *checker) adapter(s *runspec.Spec, at, path string) {
	if path == "" {
		return
	}
	if !strings.HasPrefix(path, "/") {
		c.faults.Add(at, "%q is not an absolute path", path)
	} else if _, err := s.Adapters.Clean(path); err != nil {
		c.fail(c.sound("adapters.path_prefix"), at, "%v", err)
	}
}
