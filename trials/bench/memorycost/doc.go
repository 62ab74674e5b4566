// Package memorycost measures what memory the service takes: a worker for each game that it plays, a server for each
// claim that waits, and Redis for each token that is trained on. Package benchservice starts the service. The engines
// hold their answers, so that as many games as are wanted are in play at the same phase while the processes are looked
// at; what one game or claim takes is the slope over several numbers of them. Start reading at Measure.
package memorycost
