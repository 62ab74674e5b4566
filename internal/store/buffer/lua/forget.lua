-- Only a run that was never heard of, and has nothing, is forgotten.
--> ok forgotten:int
if call('HEXISTS', run, 'status') == 1 or int('launched') > 0 or int('granted') > 0 then return {'ok', 0} end
call('DEL', run)
return {'ok', 1}
