package experiment

import (
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/settings"
	"github.com/millrace/millrace/internal/sim/workload"
	"github.com/millrace/millrace/internal/spec"
)

func at(bound float64) *float64 { return settings.Bound(bound) }

// maxSeconds is the longest time that a setting may name: ten days.
const maxSeconds = 864_000

// ownKeys is one row for every key of an experiment's file, without those of its setting.
var ownKeys = []settings.Key{
	{Path: "name", Required: true, Example: "flush-windows", Doc: "the experiment's name"},
	{Path: "title", Required: true, Doc: "what it is about, in one line"},
	{Path: "source", Doc: "where the claims come from"},
	{Path: "about", Doc: "the setting and the question, in a few sentences"},
	{Path: "seeds", Default: 5, Min: at(1), Max: at(1000),
		Doc: "how often a cell in which chance plays is played; claims are decided by 95 % intervals over them"},
	{Path: "slow", Doc: "takes more than a few seconds: its section of docs/experiments.md is not tested"},
	{Path: "setting", Doc: "what every part has in common"},
	{Path: "parts", Doc: "the tables of results"},
	{Path: "parts.name", Required: true, Doc: "what expressions call the part: a-z 0-9 _"},
	{Path: "parts.title", Doc: "the table's heading"},
	{Path: "parts.about", Doc: "what is to be seen in the table"},
	{Path: "parts.set", Doc: "what is different in this part: KEY=VALUE, with the keys below setting"},
	{Path: "parts.axes", Doc: "what is varied; every combination of points is a cell"},
	{Path: "parts.axes.name", Required: true, Doc: "what expressions call the axis: a-z 0-9 _"},
	{Path: "parts.axes.key", Doc: "the key that takes each of values"},
	{Path: "parts.axes.values", Doc: "values of key, which are the points' names"},
	{Path: "parts.axes.points", Doc: "in place of key and values: points that set several keys"},
	{Path: "parts.axes.points.name", Required: true, Doc: "the point's name"},
	{Path: "parts.axes.points.set", Doc: "what the point sets: KEY=VALUE, with the keys below setting"},
	{Path: "parts.columns", Doc: "the metrics that the table shows; metrics.go has them all"},
	{Path: "parts.baseline", Doc: "the cell that --compare compares the others with, such as window=0s"},
	{Path: "parts.arrivals", Doc: "with --arrivals, this part plays the arrivals of that file"},
	{Path: "parts.figure", Doc: "how the part is drawn"},
	{Path: "parts.figure.kind", OneOf: []string{"", "lines", "bars"}, Doc: "lines or bars; without it nothing is drawn"},
	{Path: "parts.figure.x", Doc: "the axis along the bottom; of a pipeline also step"},
	{Path: "parts.figure.y", Doc: "the metric"},
	{Path: "parts.figure.by", Doc: "the axis that has a line for each point"},
	{Path: "parts.figure.where", Doc: "the points of the other axes, such as load=busy"},
	{Path: "parts.figure.title", Doc: "the figure's heading, if not the part's"},
	{Path: "parts.figure.log_y", Doc: "draw the metric on a logarithmic scale"},
	{Path: "claims", Doc: "what is claimed of the outcome"},
	{Path: "claims.name", Required: true, Doc: "a short name of the claim"},
	{Path: "claims.says", Required: true, Doc: "the claim in plain words, with the figures of whoever makes it"},
	{Path: "claims.check", Doc: "the expression that decides it; without one it cannot be decided here"},
	{Path: "claims.shows", Doc: "the figures that decide it: text with expressions in braces"},
	{Path: "claims.because", Doc: "why it is so; expressions in braces as in shows"},
	{Path: "claims.expect", Required: true, OneOf: []string{string(Holds), string(DoesNotHold), string(Undecided)},
		Doc: "the verdict that is known; another one is reported"},
}

// settingKeys is one row for every key of a setting.
var settingKeys = slices.Concat([]settings.Key{
	{Path: "arrivals", Doc: "when calls come, and what is in them"},
	{Path: "arrivals.process", Default: workload.PoissonArrivals, OneOf: processNames(),
		Doc: "gaps drawn from an exponential or a gamma distribution, even gaps, bursts, all at once, or a trace"},
	{Path: "arrivals.calls", Min: at(0), Max: at(10_000_000),
		Doc: "how many calls come; of a trace: the first so many requests, 0: all"},
	{Path: "arrivals.gap", Min: at(0), Max: at(maxSeconds), Doc: "mean time between calls, or between bursts"},
	{Path: "arrivals.median", Min: at(0), Max: at(maxSeconds), Doc: "median time between calls, of the process gamma"},
	{Path: "arrivals.burst", Min: at(0), Max: at(100_000), Doc: "calls in a burst"},
	{Path: "arrivals.trace", Doc: "a trace that comes with the program, or a file"},
	{Path: "arrivals.faster", Min: at(0), Max: at(1_000_000), Doc: "divides the times of a trace; 0: 1"},
	{Path: "engines", Default: 1, Min: at(1), Max: at(4096), Doc: "how many engines there are"},
	{Path: "engine", Doc: "how an engine works"},
	{Path: "engine.batching", Default: WholeBatches, OneOf: []string{WholeBatches, Continuous},
		Doc: "whole: a batch is worked on until its longest request is done; continuous: as vLLM does it"},
	{Path: "engine.profile", Doc: "hardware profile of continuous batching: a name or a file"},
	{Path: "engine.time_factor", Min: at(0), Max: at(1000), Doc: "multiplies the profile's times; 0: 1"},
	{Path: "engine.time", Doc: "how long a whole batch takes: (per_token + per_request_token x requests) x tokens of " +
		"the longest request x (1 + growth x (requests-1)/requests), and per_batch, and per_request x requests"},
	{Path: "engine.time.per_batch", Min: at(0), Max: at(maxSeconds), Doc: "of every batch"},
	{Path: "engine.time.per_request", Min: at(0), Max: at(maxSeconds), Doc: "and for each of its requests"},
	{Path: "engine.time.per_token", Min: at(0), Max: at(maxSeconds), Doc: "and for each token of the longest request"},
	{Path: "engine.time.per_request_token", Min: at(0), Max: at(maxSeconds),
		Doc: "and for each token of the longest request, times requests"},
	{Path: "engine.time.growth", Min: at(0), Max: at(1000), Doc: "how much longer a large batch takes than one request"},
	{Path: "engine.time.measured", Doc: "in place of the formula: times that were measured"},
	{Path: "engine.time.measured.batch", Min: at(1), Max: at(100_000), Doc: "requests in the batch"},
	{Path: "engine.time.measured.longest", Min: at(1), Max: at(100_000_000), Doc: "tokens of its longest request"},
	{Path: "engine.time.measured.time", Min: at(0), Max: at(maxSeconds), Doc: "how long it took"},
	{Path: "engine.time.table", Doc: "in place of the formula: a CSV file with the columns batch_size, longest_tokens " +
		"and seconds, and before them a line # source: that says what was measured"},
	{Path: "engine.time.outside", Default: ClampOutside, OneOf: []string{ClampOutside, RefuseOutside},
		Doc: "batches beyond what was measured take the outermost times, and are counted as outside_table; or are refused"},
	{Path: "engine.time.source", Doc: "where the numbers come from"},
	{Path: "engine.output_only", Doc: "a request is as long as its answer; otherwise the prompt counts, too"},
	{Path: "engine.variation", Min: at(0), Max: at(2),
		Doc: "coefficient of variation of a batch's time, lognormal; 0: always the same"},
	{Path: "engine.workers", Min: at(0), Max: at(1024), Doc: "copies of the model in one engine, each with its own batch"},
	{Path: "engine.cores", Min: at(0), Max: at(1024),
		Doc: "cores that the workers share; 0: enough"},
	{Path: "engine.cores_per_worker", Min: at(0), Max: at(1024),
		Doc: "cores that one worker can use; 0: all of them"},
	{Path: "engine.contention", Min: at(0), Max: at(100),
		Doc: "how much slower every further worker makes all of them, beside their sharing the cores"},
	{Path: "assign", Default: AssignFree, OneOf: []string{string(AssignFree), string(AssignHash), string(AssignCalls),
		string(AssignBins)},
		Doc: "who chooses a request's engine: the scheduler when one is free, or, at the arrival, a hash of the prompt, " +
			"calls in turn, or the bin of its length: then every bin has its own engines"},
	{Path: "lock", Doc: "a lock is held while a batch is worked on, so that one engine works at a time"},
	{Path: "told", Default: ToldLengths, OneOf: []string{string(ToldLengths), string(ToldNothing), string(ToldPrediction)},
		Doc: "what the scheduler is told of requests: their true lengths, nothing, or a prediction from the prompt"},
	{Path: "prediction", Doc: "factor x prompt ^ exponent, lognormal; without it that of seed note 003"},
	{Path: "prediction.factor", Min: at(0), Max: at(1000), Doc: "1.5 in seed note 003"},
	{Path: "prediction.exponent", Min: at(0), Max: at(10), Doc: "0.7 in seed note 003"},
	{Path: "prediction.spread", Min: at(0), Max: at(10), Doc: "standard deviation of the logarithm; 0.1 in seed note 003"},
	{Path: "told_beside", Min: at(0), Max: at(0.5),
		Doc: "share of requests that the scheduler is told a length of the next bin of, to each side of an inner bin"},
	{Path: "bin_ends", Default: AsDispatched, OneOf: []string{string(AsDispatched), string(EqualMassBins),
		string(OptimalBins), string(ExponentialBins)},
		Doc: "where bins end: as dispatch.batching says; with equally many of all requests in each; where full batches are " +
			"the shortest; or as the multi-bin paper has it for exponential lengths"},
	{Path: "scheduler", Default: TheDispatcher, OneOf: schedulerNames(),
		Doc: "the service's dispatcher, or a scheduler of seed note 003, which takes max_batch_size, boundaries and slo"},
	{Path: "python_ties", Doc: "requests of the same moment come in the order in which the program of seed note 003 " +
		"takes them"},
	{Path: "slo", Min: at(0), Max: at(maxSeconds), Doc: "the latency beyond which a request counts as a violation"},
	{Path: "horizon", Min: at(0), Max: at(maxSeconds), Doc: "the time up to which done and done_batches count"},
	{Path: "setup", Doc: "a setup that comes with the program, or a file: the cell is a whole pipeline, as millrace " +
		"simulate plays it, and KEY=VALUE of setup.KEY changes it"},
	{Path: "scaling", Doc: "an autoscaler of a pipeline's engines, which goes by outstanding requests"},
	{Path: "scaling.target", Min: at(0), Max: at(100_000),
		Doc: "it wants one engine for so many outstanding requests; 0: no autoscaler"},
	{Path: "scaling.least", Default: 1, Min: at(1), Max: at(1024), Doc: "engines that always stay"},
	{Path: "scaling.most", Default: 16, Min: at(1), Max: at(1024), Doc: "engines at most"},
	{Path: "scaling.scale_down", Default: 10 * time.Minute, Min: at(0), Max: at(maxSeconds),
		Doc: "how long fewer must be wanted before one ends"},
}, drawKeys("arrivals.prompts", "requests in a call"), drawKeys("arrivals.prompt", "tokens of a prompt"),
	drawKeys("arrivals.output", "tokens of an answer"), dispatchKeys())

func drawKeys(path, what string) []settings.Key {
	return []settings.Key{
		{Path: path, Doc: what + ": one value, or a distribution; without it 1"},
		{Path: path + ".value", Min: at(0), Max: at(100_000_000), Doc: "always this"},
		{Path: path + ".min", Min: at(0), Max: at(100_000_000), Doc: "uniform from this"},
		{Path: path + ".max", Min: at(0), Max: at(100_000_000), Doc: "to this, both included"},
		{Path: path + ".mean", Min: at(0), Max: at(100_000_000), Doc: "lognormal with this mean"},
		{Path: path + ".cv", Min: at(0), Max: at(100), Doc: "and this coefficient of variation"},
		{Path: path + ".values", Doc: "one of these"},
		{Path: path + ".weights", Doc: "with these weights"},
	}
}

// dispatchKeys is a run spec's section dispatch: the scheduler is the service's own.
func dispatchKeys() []settings.Key {
	var keys []settings.Key
	for _, key := range spec.Table().Keys {
		if key.Path == "dispatch" || strings.HasPrefix(key.Path, "dispatch.") {
			key.Live, key.Alias = false, ""
			keys = append(keys, key)
		}
	}
	return keys
}

func processNames() []string {
	var names []string
	for _, p := range workload.ArrivalProcesses() {
		names = append(names, string(p))
	}
	return names
}

// SettingTable is the keys of a setting: what parts and points set.
func SettingTable() settings.Table { return settings.Table{Keys: slices.Clone(settingKeys)} }

// Table is every key of an experiment's file.
func Table() settings.Table {
	keys := slices.Clone(ownKeys)
	for _, key := range settingKeys {
		key.Path = settings.Join("setting", key.Path)
		keys = append(keys, key)
	}
	return settings.Table{Keys: keys}
}

// DefaultSetting is what a setting says where it says nothing.
func DefaultSetting() Setting { return Default().Setting }

// Default is what a file says where it says nothing.
func Default() Experiment {
	var e Experiment
	for _, key := range Table().Keys {
		if key.Default != nil && !strings.HasPrefix(key.Path, "parts.") && !strings.HasPrefix(key.Path, "claims.") {
			key.SetDefault(&e)
		}
	}
	return e
}
