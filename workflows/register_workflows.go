package workflows

// Register makes this version's workflows known to a worker or a replayer.
func Register(to interface{ RegisterWorkflow(any) }) {
	to.RegisterWorkflow(Run)
	to.RegisterWorkflow(Group)
	to.RegisterWorkflow(Fleet)
	to.RegisterWorkflow(FleetScaling)
}
