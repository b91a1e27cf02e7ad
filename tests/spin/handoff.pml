/* The handoff between a receiver and a sender, with DMA that obeys neither at once, and either side crashing.
 *
 *     bash tests/gates/spin.sh          the sound model, then every planted bug
 *
 * Modelled
 * - Receiver: reserves two pages, opens a write ticket on each for the lane that fills it, sends an offer. A ticket ends when
 *   its lane's end was reported, or when the sender is known dead and its lanes were torn down. The receiver accepts when all
 *   tickets have ended, it was told of each part once, and the bytes are those that the digests speak of; else it rejects. It
 *   may give up at any time. A page of a rejected transfer is quarantined until its ticket ends; then it is zeroed, and
 *   anybody's.
 * - Sender: checks an offer against what it sealed and starts it, once, or refuses it. It says a receipt for each part, and may
 *   give up. Its source pages stay until each reader (a lane) was acknowledged, or has stopped after a refusal.
 * - Two DMA lanes: they read the source and store into the destination when they please: behind the receipt, behind the
 *   sender's abort and its crash, and (the first) once more after a store. A lane may end with nothing stored.
 * - Messages: sets of them, which arrive in any order, are lost and come twice. Both sides repeat what they said while
 *   nothing comes back.
 * - Who has the pages next: a tenant that takes whichever page is free, and a second transfer.
 * - FAULTS in all, each at any step: a crash of one side, a message lost or doubled, a side that gives up. A death is noticed
 *   some time; nothing else happens by time.
 *
 * Not modelled: bytes within a page (one number stands for them), digests that collide, a peer that lies, layouts and tiles, a
 * side that comes back after it was declared dead, the pool's own lock and atomics (tests/loom has these). In two
 * transfers the gate searches for no fault; late messages of the first are there by repetition. With one fault the search took
 * two minutes and 1.4 GB, in 20,432,600 states (-DTRANSFERS=2 -DFAULTS=1 -DVISITS=0, gcc -DHC4), and found nothing.
 *
 * Safety, by assertions: S1 a readable page holds the sender's bytes; S2 a lane stores only into a page of its transfer; S3 a
 * page that is handed out is zero; S4 what is accepted was told of exactly once, part by part; S5 a rejected transfer never
 * becomes readable; S6 a lane reads no source page that went back. Liveness: L every transfer ends on each side that lives,
 * and its pages go back.
 *
 * Bugs to plant, by -D: tests/gates/spin.sh lists them with the promise that each must break.
 */

#ifndef TRANSFERS
#define TRANSFERS 2
#endif
/* How many faults there are in a run, of any kinds; VISITS of the tenant. */
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef VISITS
#define VISITS 1
#endif

/* What a page holds: nothing, the sealed bytes of a transfer, another tenant's on either side. */
#define ZERO 0
#define SEALED(t) ((t) + 1)
#define SOMEBODYS 8
#define TENANTS 9

/* Who has a destination page: nobody, a transfer (a rejected one until its tickets end), the tenant. */
#define FREE 0
#define OF(t) ((t) + 1)
#define TENANT 9

/* What became of a transfer. */
#define OPEN 0
#define GOOD 1
#define BAD 2

/* The id that messages carry, and where a set of messages has those for a lane of it. */
#ifdef ID_REUSE
#define ID(t) 0
#else
#define ID(t) (t)
#endif
#define AT(id, lane) ((id) * 2 + (lane))

/* Messages on their way. A receipt carries what its digest speaks of. */
bool offer[TRANSFERS], no_to_sender[TRANSFERS], no_to_receiver[TRANSFERS];
byte receipt[2 * TRANSFERS];
bool ended[2 * TRANSFERS], ack[2 * TRANSFERS];

/* The receiver's. */
byte page[2], holder[2];
bool ticket[2];
byte told, messages, claim[2], covered[2];
byte received[TRANSFERS];
bool receiver_done, receiver_dead;

/* The sender's: which sources went back, and what became of each id. */
bool gone[TRANSFERS];
byte sent[TRANSFERS];
byte said, acked, acks, turn;
bool sender_dead;

/* A lane's job: its transfer and one, or 0; what it has read; how often it has stored. */
byte job[2], carried[2], stores[2];

byte faults = FAULTS, visits = VISITS;

/* Only planted bugs count messages; nobody needs to know of more than two. */
#if defined(COVERAGE_PER_MESSAGE) || defined(ACK_PER_MESSAGE)
#define COUNT(number) number = (number < 2 -> number + 1 : 2)
#else
#define COUNT(number) skip
#endif

/* A message is taken; or a copy of it is, and it comes again. */
inline take(message) {
    if
    :: message = 0
    :: faults > 0 -> faults--
    fi
}

/* ---- receiver ---- */

#define RECEIPTS(id) (receipt[AT(id, 0)] || receipt[AT(id, 1)])
#define ENDS(id) (ended[AT(id, 0)] || ended[AT(id, 1)])
#define TO_RECEIVER(id) (RECEIPTS(id) || ENDS(id) || no_to_receiver[id])
#define TOLD(lane) (told & (1 << (lane)))
#define TICKETS (ticket[0] || ticket[1])

#ifdef ACCEPT_WITH_OPEN_TICKETS
#define STOPPED true
#else
#define STOPPED (!TICKETS)
#endif
#if defined(NO_COVERAGE)
#define ALL_TOLD (told != 0)
#elif defined(COVERAGE_PER_MESSAGE)
#define ALL_TOLD (messages >= 2)
#else
#define ALL_TOLD (told == 3)
#endif
#ifdef NO_DIGEST
#define EQUAL(lane) true
#else
#define EQUAL(lane) (!TOLD(lane) || claim[lane] == page[lane])
#endif
#define COMPLETE (STOPPED && ALL_TOLD)
#define NEWS(id, lane) (receipt[AT(id, lane)] && !TOLD(lane))
/* What takes a waiting receiver further. Repetitions wait for it, or they could go on for ever. */
#define STEP(id) (COMPLETE || sender_dead || no_to_receiver[id] || ENDS(id) || NEWS(id, 0) || NEWS(id, 1))

/* Of the first transfer at most one message is still on its way when the second begins: more only make the search long. */
#define LATE (offer[0] + no_to_sender[0] + no_to_receiver[0] + (receipt[0] > 0) + (receipt[1] > 0) + ended[0] + ended[1] + \
    ack[0] + ack[1])

inline give_back(lane) {
#ifndef NO_ZEROING
    page[lane] = ZERO;
#endif
    holder[lane] = FREE
}

/* What the receiver knew of a transfer that is over. */
inline forget() {
    told = 0; messages = 0; claim[0] = 0; claim[1] = 0; covered[0] = 0; covered[1] = 0
}

/* A page of a rejected transfer goes when its ticket has ended. */
inline let_go(lane) {
    if
#ifdef FREE_ON_DEADLINE
    :: holder[lane] == OF(t) -> ticket[lane] = 0; give_back(lane)
#else
    :: holder[lane] == OF(t) && !ticket[lane] -> give_back(lane)
#endif
    :: else
    fi
}

/* The agents of a dead sender are destroyed: its lanes store no more. Then its tickets end. */
inline tear_down() {
#ifndef REVOKE_WITHOUT_TEARDOWN
    job[0] = 0; carried[0] = 0; stores[0] = 0;
    job[1] = 0; carried[1] = 0; stores[1] = 0;
#endif
    ticket[0] = 0; ticket[1] = 0
}

inline hear_receipt(id, lane) {
    COUNT(messages);
    if
    :: TOLD(lane)
    :: else -> told = told | (1 << lane); claim[lane] = receipt[AT(id, lane)]; covered[lane]++
    fi;
    take(receipt[AT(id, lane)])
}

inline hear_end(id, lane) {
    ticket[lane] = 0;
    ack[AT(id, lane)] = 1;
    take(ended[AT(id, lane)])
}

/* A receipt for a transfer that ended here: its sender does not know how. */
inline repeat_verdict(id) {
    if
#ifndef ANSWERS_NO_REPEATS
    :: received[id] == GOOD -> ack[AT(id, 0)] = 1; ack[AT(id, 1)] = 1
    :: received[id] == BAD -> no_to_sender[id] = 1
#endif
    :: else
    fi
}

inline hear_old(id) {
    if
    :: receipt[AT(id, 0)] -> take(receipt[AT(id, 0)]); repeat_verdict(id)
    :: receipt[AT(id, 1)] -> take(receipt[AT(id, 1)]); repeat_verdict(id)
    :: ended[AT(id, 0)] -> take(ended[AT(id, 0)])
    :: ended[AT(id, 1)] -> take(ended[AT(id, 1)])
    :: no_to_receiver[id] -> take(no_to_receiver[id])
    fi
}

active proctype Receiver() {
    byte t = 0;
    bool rejected;
    {
end_idle:
    do
    :: atomic { t < TRANSFERS && holder[0] == FREE && holder[1] == FREE && (t == 0 || LATE <= 1) ->
        assert(page[0] == ZERO && page[1] == ZERO); /* S3 */
        holder[0] = OF(t); holder[1] = OF(t);
        ticket[0] = 1; ticket[1] = 1;
        rejected = 0;
        received[ID(t)] = OPEN;
        offer[ID(t)] = 1;
        goto wait }
    :: atomic { t == TRANSFERS && !receiver_done -> receiver_done = 1 }
    :: atomic { TO_RECEIVER(0) -> hear_old(0) }
#if TRANSFERS > 1
    :: atomic { TO_RECEIVER(1) -> hear_old(1) }
#endif
    od;

wait:
    do
    :: atomic { NEWS(ID(t), 0) -> hear_receipt(ID(t), 0) }
    :: atomic { NEWS(ID(t), 1) -> hear_receipt(ID(t), 1) }
    :: atomic { ended[AT(ID(t), 0)] -> hear_end(ID(t), 0) }
    :: atomic { ended[AT(ID(t), 1)] -> hear_end(ID(t), 1) }
    :: atomic { COMPLETE && EQUAL(0) && EQUAL(1) -> received[ID(t)] = GOOD; goto readable }
    :: atomic { COMPLETE && !(EQUAL(0) && EQUAL(1)) -> no_to_sender[ID(t)] = 1; goto reject }
    :: atomic { no_to_receiver[ID(t)] -> take(no_to_receiver[ID(t)]);
#ifdef TICKETS_END_WITH_REFUSAL
        ticket[0] = 0; ticket[1] = 0;
#endif
        goto reject }
    :: atomic { faults > 0 -> faults--; no_to_sender[ID(t)] = 1; goto reject }
    :: atomic { sender_dead -> tear_down(); goto reject }
    /* repetitions */
    :: atomic { !STEP(ID(t)) && receipt[AT(ID(t), 0)] -> hear_receipt(ID(t), 0) }
    :: atomic { !STEP(ID(t)) && receipt[AT(ID(t), 1)] -> hear_receipt(ID(t), 1) }
    :: atomic { !STEP(ID(t)) && !TO_RECEIVER(ID(t)) && !offer[ID(t)] -> offer[ID(t)] = 1 }
#if TRANSFERS > 1
    :: atomic { !STEP(ID(t)) && ID(t) == 1 && TO_RECEIVER(0) -> hear_old(0) }
#endif
    od;

reject:
    atomic { rejected = 1; received[ID(t)] = BAD; forget(); let_go(0); let_go(1) };
    do
    :: atomic { !TICKETS -> t++; goto end_idle }
    :: atomic { ended[AT(ID(t), 0)] -> ticket[0] = 0; let_go(0); take(ended[AT(ID(t), 0)]) }
    :: atomic { ended[AT(ID(t), 1)] -> ticket[1] = 0; let_go(1); take(ended[AT(ID(t), 1)]) }
    :: atomic { TICKETS && sender_dead -> tear_down(); let_go(0); let_go(1) }
#ifdef REJECTED_REVIVES
    :: atomic { RECEIPTS(ID(t)) && holder[0] == OF(t) && holder[1] == OF(t) -> goto wait }
#endif
    /* repetitions: saying no again asks how the lanes are */
    :: atomic { TICKETS && !sender_dead && !ENDS(ID(t)) && TO_RECEIVER(ID(t)) -> hear_old(ID(t)) }
    :: atomic { TICKETS && !sender_dead && !TO_RECEIVER(ID(t)) && !no_to_sender[ID(t)] -> no_to_sender[ID(t)] = 1 }
    od;

readable:
    atomic {
        assert(!rejected); /* S5 */
        assert(covered[0] == 1 && covered[1] == 1); /* S4 */
        assert(page[0] == SEALED(t) && page[1] == SEALED(t)) /* S1 */
    };
    /* Read again later, then released. */
    atomic {
        assert(page[0] == SEALED(t) && page[1] == SEALED(t)); /* S1 */
        ticket[0] = 0; ticket[1] = 0;
        forget(); give_back(0); give_back(1);
        t++;
        goto end_idle
    }
    } unless { receiver_dead }
}

/* ---- sender ---- */

#define ANSWERS(id) (ack[AT(id, 0)] || ack[AT(id, 1)] || no_to_sender[id])
#define TO_SENDER(id) (ANSWERS(id) || offer[id])

#ifdef ACK_PER_MESSAGE
#define ALL_ACKED (acks >= 2)
#else
#define ALL_ACKED (acked == 3)
#endif

/* Which transfer an offer of this id is for. Who uses an id twice has only the order to tell them apart. */
#ifdef ID_REUSE
#define NUMBER(id) turn
#define KEEP(id, verdict) sent[id] = (turn == TRANSFERS -> verdict : OPEN)
#else
#define NUMBER(id) (id)
#define KEEP(id, verdict) sent[id] = verdict
#endif

inline say_ended(id) {
    ended[AT(id, 0)] = !job[0]; ended[AT(id, 1)] = !job[1]
}

inline say_all(id, t) {
    receipt[AT(id, 0)] = SEALED(t); receipt[AT(id, 1)] = SEALED(t);
    say_ended(id)
}

inline hear_ack(id, lane) {
    acked = acked | (1 << lane);
    COUNT(acks);
    take(ack[AT(id, lane)])
}

/* A transfer that does not run: messages that came late, and the first offer. */
inline hear_idle(id) {
    if
    :: ack[AT(id, 0)] -> take(ack[AT(id, 0)])
    :: ack[AT(id, 1)] -> take(ack[AT(id, 1)])
    :: no_to_sender[id] ->
        if
        /* It never starts. */
        :: sent[id] == OPEN -> t = NUMBER(id); turn++; gone[t] = 1; KEEP(id, BAD)
        :: else
        fi;
        take(no_to_sender[id]);
        say_ended(id)
    :: offer[id] && sent[id] == OPEN ->
        t = NUMBER(id); turn++;
        take(offer[id]);
        if
        :: goto start
        :: faults > 0 ->
            faults--; gone[t] = 1; KEEP(id, BAD); no_to_receiver[id] = 1; say_ended(id)
        fi
    :: offer[id] && sent[id] == BAD -> take(offer[id]); no_to_receiver[id] = 1; say_ended(id)
    :: offer[id] && sent[id] == GOOD -> take(offer[id]);
#ifdef SECOND_OFFER_STARTS
        t = id; goto start
#else
        say_all(id, id)
#endif
    fi;
    t = 0
}

active proctype Sender() {
    byte t = 0;
    {
end_idle:
    do
    :: atomic { receiver_dead -> gone[0] = 1; gone[TRANSFERS - 1] = 1; goto end_over }
    :: atomic { TO_SENDER(0) && !receiver_dead -> hear_idle(0) }
#if TRANSFERS > 1
    :: atomic { TO_SENDER(1) && !receiver_dead -> hear_idle(1) }
#endif
    od;

start:
    atomic { job[0] = OF(t); job[1] = OF(t) };
    do
    :: atomic { said < 2 -> receipt[AT(ID(t), said)] = SEALED(t); said++ }
    :: atomic { ack[AT(ID(t), 0)] -> hear_ack(ID(t), 0) }
    :: atomic { ack[AT(ID(t), 1)] -> hear_ack(ID(t), 1) }
#ifdef UNPIN_ON_SEND
    :: atomic { said == 2 && !gone[t] -> gone[t] = 1 }
#endif
    :: atomic { said == 2 && ALL_ACKED -> gone[t] = 1; KEEP(ID(t), GOOD); t = 0; said = 0; acked = 0; acks = 0; goto end_idle }
    :: atomic { no_to_sender[ID(t)] -> take(no_to_sender[ID(t)]); goto stop }
    :: atomic { faults > 0 -> faults--; no_to_receiver[ID(t)] = 1; goto stop }
    :: atomic { receiver_dead -> goto stop }
    /* repetitions */
    :: atomic { said == 2 && !ALL_ACKED && !ANSWERS(ID(t)) && offer[ID(t)] -> take(offer[ID(t)]); say_all(ID(t), t) }
    :: atomic { said == 2 && !ALL_ACKED && !TO_SENDER(ID(t)) && !RECEIPTS(ID(t)) && !ENDS(ID(t)) && !receiver_dead ->
        say_all(ID(t), t) }
    od;

stop:
    /* The lanes were asked to stop, and do so when they please. */
    atomic { !job[0] && !job[1] ->
#ifndef REFUSAL_KEEPS_SOURCE
        gone[t] = 1;
#endif
        KEEP(ID(t), BAD);
        no_to_receiver[ID(t)] = 1; say_ended(ID(t));
        t = 0; said = 0; acked = 0; acks = 0;
        goto end_idle
    };
end_over:
    false
    } unless { sender_dead }
}

/* ---- lanes, the tenant, faults ---- */

inline lane_reads(lane) {
    assert(!gone[job[lane] - 1]); /* S6 */
    carried[lane] = job[lane]
}

inline lane_stores(lane) {
    if
    :: receiver_dead
    :: else ->
        assert(holder[lane] == job[lane]); /* S2 */
        page[lane] = carried[lane]
    fi;
    stores[lane]++
}

/* Done, or failed with nothing stored. */
inline lane_ends(lane) {
    ended[AT(ID(job[lane] - 1), lane)] = 1;
    job[lane] = 0; carried[lane] = 0; stores[lane] = 0
}

active proctype Lane0() {
end_lane:
    do
    :: atomic { job[0] && !carried[0] && !sender_dead -> lane_reads(0) }
    :: atomic { carried[0] && stores[0] < 2 -> lane_stores(0) }
    :: atomic { job[0] -> lane_ends(0) }
    od
}

active proctype Lane1() {
end_lane:
    do
    :: atomic { job[1] && !carried[1] && !sender_dead -> lane_reads(1) }
    :: atomic { carried[1] && stores[1] < 1 -> lane_stores(1) }
    :: atomic { job[1] -> lane_ends(1) }
    od
}

inline visit(lane) {
    assert(page[lane] == ZERO); /* S3 */
    holder[lane] = TENANT; page[lane] = TENANTS;
    visits--
}

inline leave(lane) {
    assert(page[lane] == TENANTS); /* S2 */
    page[lane] = ZERO; holder[lane] = FREE
}

active proctype Tenant() {
    {
end_tenant:
    do
    :: atomic { visits > 0 && holder[0] == FREE -> visit(0) }; atomic { leave(0) }
    :: atomic { visits > 0 && holder[1] == FREE -> visit(1) }; atomic { leave(1) }
    od
    } unless { receiver_dead }
}

inline lose(message) {
    message = 0; faults--
}

/* It may stop at any time, or fairness would demand a crash. */
active proctype Faults() {
end_faults:
    do
    :: faults > 0 -> faults = 0
    :: atomic { faults > 0 && !receiver_dead -> faults--; sender_dead = 1 }
    :: atomic { faults > 0 && !sender_dead -> faults--; receiver_dead = 1 }
    :: atomic { faults > 0 && offer[0] -> lose(offer[0]) }
    :: atomic { faults > 0 && no_to_sender[0] -> lose(no_to_sender[0]) }
    :: atomic { faults > 0 && no_to_receiver[0] -> lose(no_to_receiver[0]) }
    :: atomic { faults > 0 && receipt[0] -> lose(receipt[0]) }
    :: atomic { faults > 0 && receipt[1] -> lose(receipt[1]) }
    :: atomic { faults > 0 && ended[0] -> lose(ended[0]) }
    :: atomic { faults > 0 && ended[1] -> lose(ended[1]) }
    :: atomic { faults > 0 && ack[0] -> lose(ack[0]) }
    :: atomic { faults > 0 && ack[1] -> lose(ack[1]) }
    od
}

/* L */
ltl ends { <> ((receiver_dead || receiver_done) && (sender_dead || (gone[0] && gone[TRANSFERS - 1]))) }
