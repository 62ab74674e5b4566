package buffer

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
)

// seqsAndSamples reads a member of the account's spent: the group, whether all is to be deleted, and its samples.
func seqsAndSamples(member string) (seq int64, all bool, samples []int) {
	of := words(member)
	for i := 2; i < len(of); i++ {
		if n, err := strconv.Atoi(of.str(i)); err == nil {
			samples = append(samples, n)
		}
	}
	return of.int(0), of.str(1) == "all", samples
}

// collectAtOnce bounds of how many groups something is deleted at a time.
const collectAtOnce = 64

// collect deletes what is left of the games of groups that are over. What it does not come to is deleted when the next
// group is over, or with the run.
func (s *Store) collect(ctx context.Context, run rollout.RunName) error {
	for {
		groups, err := s.collectSome(ctx, run)
		if err != nil {
			return trouble("delete games of groups that are over", err)
		}
		if groups < collectAtOnce {
			return nil
		}
	}
}

func (s *Store) collectSome(ctx context.Context, run rollout.RunName) (groups int, err error) {
	spent := s.key(run, "spent")
	members, err := s.rdb.SRandMemberN(ctx, spent, collectAtOnce).Result()
	if err != nil || len(members) == 0 {
		return 0, err
	}
	_, err = s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, member := range members {
			seq, all, samples := seqsAndSamples(member)
			for _, sample := range samples {
				ref := rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: run, Seq: rollout.GroupSeq(seq)}, Sample: sample}
				p.Unlink(ctx, s.journalKeys(ref)[:1+flag(all)]...)
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	gone := make([]any, len(members))
	for i, member := range members {
		gone[i] = member
	}
	return len(members), s.rdb.SRem(ctx, spent, gone...).Err()
}
