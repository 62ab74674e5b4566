// Package workflows is the durable part of the program: workflows for runs, groups of games, and the fleet of engines.
// Workflows decide and wait; every side effect is an activity. They carry references and counts, never tokens, so that
// histories stay small. Start reading at Run, then Group, then Client, through which the rest of the program speaks to
// them.
package workflows

import "github.com/millrace/millrace/activities"

var acts *activities.Activities // Names activities; never called through.
