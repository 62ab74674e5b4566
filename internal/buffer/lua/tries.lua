if call('EXISTS', run) == 0 then return {'no-such-run'} end
return {'ok', int('games_finished'), call('HGETALL', base .. 'tries'), call('HGETALL', base .. 'failing')}
