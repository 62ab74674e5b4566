package workflows

import (
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
)

// CompletedPrefix is a history up to what the last task that a worker has finished led to. What came since has not been
// acted upon; a replay would act, and take what it does for a difference.
func CompletedPrefix(h *history.History) *history.History {
	end := 0
	for i, event := range h.Events {
		if event.GetEventType() == enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			end = i + 1
		}
	}
	for end > 0 && end < len(h.Events) && commanded(h.Events[end]) {
		end++
	}
	return &history.History{Events: h.Events[:end]}
}

// commanded reports whether an event stems from a workflow's command.
func commanded(event *history.HistoryEvent) bool {
	switch event.GetEventType() {
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED, enums.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED:
		return true
	}
	m := event.ProtoReflect()
	attributes := m.WhichOneof(m.Descriptor().Oneofs().ByName("attributes"))
	return attributes != nil && attributes.Message().Fields().ByName("workflow_task_completed_event_id") != nil
}
