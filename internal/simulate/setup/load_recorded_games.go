package setup

import (
	"fmt"
	"os"

	"github.com/millrace/millrace/internal/diagnosis/runrecord"
	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/simulate/sim"
	"github.com/millrace/millrace/internal/simulate/sim/calibration"
	"github.com/millrace/millrace/internal/simulate/sim/workload"
)

// openRecorded reads the record whose games a setup plays again, and puts them into it.
func openRecorded(s *sim.Setup) settings.Faults {
	recorded := s.Workload.Recorded
	if recorded == nil || recorded.Games != nil {
		return nil
	}
	games, err := recordedGames(recorded.File)
	if err != nil {
		return settings.Faults{{Path: "workload.recorded.file", Text: err.Error()}}
	}
	recorded.Games = games
	return nil
}

// recordedGames is the games of a run's record in a file.
func recordedGames(path string) (*workload.Recorded, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() // it is only read
	record, err := runrecord.Read(path, file)
	if err != nil {
		return nil, err
	}
	games, err := calibration.Games(record)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return games, nil
}
