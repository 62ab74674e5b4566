if call('EXISTS', run) == 0 then return {'no-such-run'} end
return {'ok', call('HGETALL', base .. 'departures')}
