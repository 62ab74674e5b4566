--> ok finished:int tries:pairs failing:pairs
return {'ok', int('games_finished'), call('HGETALL', base .. 'tries'), call('HGETALL', base .. 'failing')}
