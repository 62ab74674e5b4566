package workflows_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/millrace/millrace/workflows"
)

// record names the generation that the runs on the real server are written to, under testdata/histories: what a
// version of the workflows leaves in Temporal. A generation is added when the workflows have changed and is never
// rewritten, because runs of every released version may still go on.
var record = flag.String("record", "", "write the histories of the runs on the real server to this new "+
	"generation, such as 4")

const histories = "testdata/histories"

func replayer() worker.WorkflowReplayer {
	r := worker.NewWorkflowReplayer()
	r.RegisterWorkflow(workflows.Run)
	r.RegisterWorkflow(workflows.Group)
	r.RegisterWorkflow(workflows.Fleet)
	r.RegisterWorkflow(workflows.FleetScaling)
	return r
}

var quiet = sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))

// Histories that every earlier version left behind replay with today's code: deploying it does not break the runs
// that go on.
func TestRecordedHistoriesReplay(t *testing.T) {
	t.Parallel()
	files := recorded(t)
	for _, file := range files {
		t.Run(strings.TrimPrefix(file, histories+"/"), func(t *testing.T) {
			t.Parallel()
			h := readHistory(t, strings.TrimPrefix(file, histories))
			if err := replayer().ReplayWorkflowHistory(quiet, h); err != nil {
				t.Errorf("%v\nthis change would break runs that go on: guard it with workflow.GetVersion (docs/upgrades.md)", err)
			}
		})
	}
}

// The newest generation has in it everything that a run can live through: a new story on the real server belongs to
// each new thing that the workflows do.
func TestHistoriesCoverTheWorkflows(t *testing.T) {
	t.Parallel()
	generations, err := filepath.Glob(histories + "/*")
	if err != nil || len(generations) == 0 {
		t.Fatalf("%d generations: %v", len(generations), err)
	}
	newest := slices.MaxFunc(generations, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	files, err := filepath.Glob(newest + "/*.json*")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		for _, event := range readHistory(t, strings.TrimPrefix(file, histories)).Events {
			seen[event.GetEventType().String()] = true
			seen[event.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName()] = true
			seen[activityInTask(t, event)] = true
			seen[event.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest().GetInput().GetName()] = true
			seen[event.GetWorkflowExecutionSignaledEventAttributes().GetSignalName()] = true
		}
	}
	for _, want := range []string{
		"PrepareGroup", "PlayEpisode", "CommitGroup", "DiscardGroup", "ReleaseGroups", "OpenRun", "Mirror",
		"RepairAccount", "AssertAdapters", "ResumeRun", "PinAdapter", "LookForGroups",
		"ChooseEngines", "InspectAdapter", "LoadAdapter", "UnloadAdapter", "SwitchPolicy", "ReportPolicy",
		"RetireAdapter", "KeepFleet", "ScaleFleet", "PerformScaling", "TellScaling",
		workflows.UpdateConfigure, workflows.UpdateSettings, workflows.SignalUnconfigured,
		workflows.UpdateChange, workflows.UpdateStop, workflows.UpdatePublish, workflows.SignalGroupEnd,
		workflows.SignalBufferChanged,
		enums.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW.String(),
		enums.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED.String(),
		enums.EVENT_TYPE_ACTIVITY_TASK_FAILED.String(), enums.EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED.String(),
		enums.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TERMINATED.String(), enums.EVENT_TYPE_TIMER_FIRED.String(),
	} {
		if !seen[want] {
			t.Errorf("%s has no %s", newest, want)
		}
	}
}

// activityInTask is the local activity that an event is the marker of; empty if it is of none.
func activityInTask(t *testing.T, event *history.HistoryEvent) string {
	t.Helper()
	marker := event.GetMarkerRecordedEventAttributes()
	if marker.GetMarkerName() != "LocalActivity" {
		return ""
	}
	var of struct{ ActivityType string }
	if err := converter.GetDefaultDataConverter().FromPayloads(marker.GetDetails()["data"], &of); err != nil {
		t.Fatal(err)
	}
	return of.ActivityType
}

// Every patch is in some recorded history, so that nothing that depends on one can be changed unseen.
func TestHistoriesHaveEveryPatch(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	asked := regexp.MustCompile(`workflow\.GetVersion\(ctx, "([a-z-]+)"`)
	seen := map[string]bool{}
	for _, file := range recorded(t) {
		for _, event := range readHistory(t, strings.TrimPrefix(file, histories)).Events {
			var patch string
			for _, payload := range event.GetMarkerRecordedEventAttributes().GetDetails()["change-id"].GetPayloads() {
				if err := converter.GetDefaultDataConverter().FromPayload(payload, &patch); err != nil {
					t.Fatal(err)
				}
				seen[patch] = true
			}
		}
	}
	for _, source := range sources {
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range asked.FindAllSubmatch(text, -1) {
			if patch := string(found[1]); !seen[patch] {
				t.Errorf("%s asks for %s, which no recorded history has: record a story that comes to it", source, patch)
			}
		}
	}
}

// A lot is replayed as it was recorded, whatever this version takes an input's length for: a field more in an input
// does not break what goes on.
func TestLotsAreReplayedAsTheyWere(t *testing.T) {
	for _, bytes := range []int{0, 200_000, 2 << 20} {
		func() {
			defer workflows.MeasureCommands(bytes)()
			for _, name := range []string{"1/heavy-run-heavy.0.json.gz", "1/wide-group-wide-0.0.json.gz"} {
				if err := replayer().ReplayWorkflowHistory(quiet, readHistory(t, name)); err != nil {
					t.Errorf("%s, with commands %d bytes longer than their inputs: %v", name, bytes, err)
				}
			}
		}()
	}
}

func recorded(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(histories + "/*/*.json*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded histories: %v", err)
	}
	return files
}

// historyOf reads one execution of a workflow.
func historyOf(t *testing.T, c client.Client, id, execution string) *history.History {
	t.Helper()
	h := &history.History{}
	for it := c.GetWorkflowHistory(t.Context(), id, execution, false,
		enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
		event, err := it.Next()
		if err != nil {
			t.Fatalf("history of %s: %v", id, err)
		}
		h.Events = append(h.Events, event)
	}
	return h
}

// executionsOf reads all executions of a workflow that has continued as new, oldest first.
func executionsOf(t *testing.T, c client.Client, id string) []*history.History {
	t.Helper()
	var all []*history.History
	for execution := ""; ; {
		h := historyOf(t, c, id, execution)
		all = append([]*history.History{h}, all...)
		execution = h.Events[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId()
		if execution == "" {
			return all
		}
	}
}

// openGeneration makes the folder of a new generation.
func openGeneration(t *testing.T, name string) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(histories, name), 0o755); err != nil {
		t.Fatalf("a generation is written once: %v", err)
	}
}

func writeHistory(t *testing.T, generation, id string, execution int, h *history.History) {
	t.Helper()
	h = workflows.CompletedPrefix(h)
	for _, event := range h.Events {
		scrub(event.ProtoReflect())
	}
	b, err := protojson.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(b)
	}
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("%s.%d.json.gz", strings.ReplaceAll(id, "/", "-"), execution)
	if err := os.WriteFile(filepath.Join(histories, generation, name), packed.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// readHistory reads a recorded history; those of later generations are packed.
func readHistory(t *testing.T, name string) *history.History {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(histories, name))
	if err == nil && strings.HasSuffix(name, ".gz") {
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(b)); err == nil {
			b, err = io.ReadAll(z)
		}
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	h := &history.History{}
	if err := protojson.Unmarshal(b, h); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return h
}

// scrub takes the names of processes and machines out of a recorded event.
func scrub(m protoreflect.Message) {
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.Name() == "identity":
			m.Set(field, protoreflect.ValueOfString("recorder"))
		case field.Kind() == protoreflect.MessageKind && !field.IsList() && !field.IsMap():
			scrub(v.Message())
		}
		return true
	})
}
