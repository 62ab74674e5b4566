package workflows

import (
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/scaling"
)

// checkScaling refuses settings of scaling that cannot be.
//
//workflowcheck:ignore settings are read and checked by reflection, in the order of their keys
func checkScaling(set scaling.Overrides, change scaling.SettingsChange, configured scaling.Config) error {
	if err := set.After(change).Check(configured); err != nil {
		return refusal(rollout.Refuse(rollout.Invalid, "%v", err))
	}
	return nil
}

// setScaling returns the operator's overrides after a change, and the configuration that results.
//
//workflowcheck:ignore maps are made from maps, and the facts about them are in the order of keys
func setScaling(
	set scaling.Overrides, change scaling.SettingsChange, configured scaling.Config,
) (scaling.Overrides, ScalingSettings) {
	set = set.After(change)
	return set, ScalingSettings{Settings: set.Over(configured), Set: set.Names()}
}
