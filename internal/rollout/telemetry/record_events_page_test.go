package telemetry_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/kit/markdowntest"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// notRecorded are kinds that a run's record leaves out: the step records say the same.
var notRecorded = []string{"training_step"}

// TestPageOfRecordsHasEveryEvent holds the table of record_events.md, to which docs/run-record.md leads, to the kinds,
// which a record has as Encode writes them: go test -run Page -update rewrites it.
func TestPageOfRecordsHasEveryEvent(t *testing.T) {
	all := telemetry.EncodedFields()
	meanings := map[string]string{}
	for _, f := range telemetry.Fields() {
		meanings[f.Name] = f.Meaning()
	}
	table := markdowntest.Head("kind", "field", "type", "is", "in Axiom")
	for _, kind := range telemetry.KindNames() {
		if slices.Contains(notRecorded, kind) {
			continue
		}
		shown := "`" + kind + "`"
		for _, f := range all[kind] {
			is, inAxiom := meaningOf(t, kind, f, meanings), ""
			if f.Row != "" {
				inAxiom = "`" + f.Row + "`"
			}
			table += markdowntest.Row(shown, "`"+f.Name+"`", string(f.Type), is, inAxiom)
			shown = ""
		}
	}
	markdowntest.File(t, "record_events.md",
		"# Events in a run's record\n\nAs [docs/run-record.md](../../../docs/run-record.md) "+
			"says; a test writes this page.\n\n"+table)
}

// meaningOf says what a field is: of its own, or as the row of the same value has it.
func meaningOf(t *testing.T, kind string, f telemetry.EncodedField, rows map[string]string) string {
	last := f.Name[strings.LastIndex(f.Name, ".")+1:]
	like := ""
	if f.Like != "" {
		like = "as " + f.Like
	}
	for _, is := range []string{encodedMeanings[kind+" "+f.Name], encodedMeanings[f.Name], like, rows[f.Row], rows[last]} {
		if is != "" {
			return is
		}
	}
	t.Errorf("field %s of %s has no line in encodedMeanings", f.Name, kind)
	return ""
}

// encodedMeanings says what the fields are that no flat row has under the same meaning: by kind and field, or by field.
var encodedMeanings = map[string]string{
	"alarm_changed advice":              "what to do",
	"alarm_changed text":                "what keeps the games from being played",
	"alarms":                            "codes of the alarms that stand",
	"batch_claimed starved_s":           "from the first claim until the batch was formed; of step 0: the prefill",
	"buffer_level counts":               "groups by state, and `bytes`, as a step's `at_claim`",
	"batch_claimed counts":              "as a step's `at_claim`: groups by state, and `bytes`",
	"dispatch_sample in_flight":         "requests under way, by engine",
	"dispatch_sample rejected":          "requests that were refused, by code",
	"dispatch_sample by_policy_version": "the two rates by the policy version that answered",
	"engine_paced slow":                 "how it lags behind the fleet; empty: it does so no more",
	"fleet_scaled predicted":            "what the change does to the runs' steps, where that can be said",
	"fleet_scaled next_change_at":       "when the next change is possible",
	"fleet_measured effects":            "steps before, as predicted and as measured, by run",
	"fleet_scaled cost":                 "of the fleet so far, in $; 0: no price is known",
	"fleet_measured cost":               "of the fleet so far, in $; 0: no price is known",
	"provider_changed trouble":          "what the provider said; empty: there is none any more",
	"group_dropped phases":              "length of each game that was played to its end",
	"load.at":                           "when the engine was looked at",
	"load.input_tokens":                 "prompt tokens since the engine was started",
	"load.life_at":                      "its latest sign of life",
	"load.output_tokens":                "generated tokens since the engine was started",
	"load.request_seconds":              "mean time in the engine of the requests answered in the window",
	"load.requests":                     "requests answered in the window",
	"policy.load_seconds":               "seconds of the load, by engine",
	"policy.proofs":                     "not in events: what engines' answers to its probes said, by engine",
	"policy.notes":                      "what could not be checked, or will be a problem",
	"policy.published_at":               "when it was published",
	"policy_version_max":                "the newest version that sampled any turn",
	"policy.state":                      "`loading`, `serving`, `rejected`, `retired`",
	"ref.run":                           "the run",
	"run_changed change":                "what was done, such as `set buffer.depth=4 (was 2)`",
	"rollout_complete queue_s":          "seconds in the dispatch queue",
}
