package workflows

import (
	"net/url"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
)

// WebUI makes addresses in Temporal's web UI. Without the UI's own address it makes empty ones.
type WebUI struct {
	Address    string // such as http://127.0.0.1:8233 or https://cloud.temporal.io
	Namespace  string
	Deployment Deployment
}

// Run is a run's workflow, Group a group's with its games among the activities, and Fleet the keeper's of the engines.
func (u WebUI) Run(run rollout.RunName) string { return u.workflow(u.Deployment.RunID(run)) }

// Group is a group's workflow.
func (u WebUI) Group(ref rollout.GroupRef) string { return u.workflow(u.Deployment.GroupID(ref)) }

// Fleet is the workflow that keeps the engines.
func (u WebUI) Fleet() string { return u.workflow(u.Deployment.FleetID()) }

// Runs is the list of the workflows of a run: itself and its groups. It needs the search attributes.
func (u WebUI) Runs(run rollout.RunName) string {
	if u.Address == "" {
		return ""
	}
	query := runAttribute.GetName() + `="` + string(run) + `"`
	return u.workflows() + "?query=" + url.QueryEscape(query)
}

// workflow is the latest execution of a workflow.
func (u WebUI) workflow(id string) string {
	if u.Address == "" {
		return ""
	}
	return u.workflows() + "/" + url.PathEscape(id)
}

func (u WebUI) workflows() string {
	return strings.TrimSuffix(u.Address, "/") + "/namespaces/" + url.PathEscape(u.Namespace) + "/workflows"
}
