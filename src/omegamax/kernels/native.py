OPS=()
def available(): return False
