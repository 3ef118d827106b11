//! Stop words: frequent words of a language that carry grammar and little meaning.
//!
//! They identify the language of a page, and queries ignore them. The lists hold the most frequent words and the
//! question words of each language. They stay short, because wrongly ignoring a rare word costs a hit.

use super::Language;

/// The words of each language, in lower case, separated by spaces.
pub(super) const STOP_WORDS: &[(Language, &str)] = &[
    (
        Language::Arabic,
        "في من على إلى الى عن أن ان إن التي الذي الذين هذا هذه ذلك تلك كان كانت يكون ما ماذا متى أين اين كيف لماذا هل \
         كم أي اي و أو او ثم لم لن لا قد كل بعض بين بعد قبل عند مع هو هي هم كما حيث منذ وقد تم لقد وهو وهي فيها منها به \
         بها له لها",
    ),
    (
        Language::Armenian,
        "և եւ է են էր որ որը ի մեջ համար այս այդ այն ինչ ով երբ որտեղ ինչպես ինչու որի իր նա նրա հետ մասին նաև կամ թե եմ",
    ),
    (
        Language::Catalan,
        "el la els les l un una uns unes de del dels d a al als en i o que qui què quin quina quins quan on com per però \
         és són era va han ha amb no es s se seu seva aquest aquesta més també entre fins des quants",
    ),
    (
        Language::Czech,
        "a i v ve na do od z ze s se si je jsou byl byla bylo byli být že co kdo kdy kde jak jaký jaká jaké který která \
         které kteří kolik proč ale nebo pro po při o u k ke to ten ta tím jeho její jejich také není jako však za jsem",
    ),
    (
        Language::Danish,
        "og i at er en et den det de der som på til af for med var har havde ikke om fra blev bliver men eller ved kan \
         hvad hvem hvor hvornår hvordan hvorfor hvilken hvilket hvilke sig sin efter også han hun jeg vi deres dette \
         denne",
    ),
    (
        Language::Dutch,
        "de het een en van in is op te dat die voor met zijn was werd wordt worden aan als door bij naar om uit ook maar \
         niet er hij zij ze wat wie waar wanneer hoe waarom welk welke hoeveel hun deze dit heeft had tot of over werden",
    ),
    (
        Language::English,
        "a an and are as at be been but by can could did do does for from had has have he her his how i if in into is \
         it its of on or that the their them there these they this those to was we were what when where which who whom \
         whose why will with would you your not our my me she him many much",
    ),
    (
        Language::Finnish,
        "ja on oli ei ovat olivat se ne hän he että joka jotka jossa mikä mitä mitkä kuka ketä milloin missä mistä mihin \
         miten miksi kuinka monta moni millainen tai myös kun kuin mutta sekä ole olla sen hänen niiden tämä oliko onko \
         jonka",
    ),
    (
        Language::French,
        "le la les l un une des de du d à au aux en et ou où que qui quoi qu quel quelle quels quelles quand comment \
         combien pourquoi est sont était étaient être a ont avait il elle ils elles on ne pas se s sa son ses leur leurs \
         ce cette ces c dans par pour sur avec plus",
    ),
    (
        Language::German,
        "der die das den dem des ein eine einer eines einem einen und oder in im ist sind war waren wurde wurden wird \
         werden von vom zu zum zur mit auf für an am als auch es er sie nicht sich bei aus nach wie was wer wen wem \
         wann wo warum welche welcher welches welchen welchem viele hat haben hatte ihre ihr seine sein dass daß durch \
         über um man",
    ),
    (
        Language::Greek,
        "ο η το οι τα του της των τον την τους τις τη στο στη στην στον στις στα στους και κι ή να με σε από για που πού \
         ποιος ποια ποιο ποιοι ποιες ποιον ποιους πότε πώς πως γιατί τι πόσο πόσα πόσοι πόσες είναι ήταν δεν δε θα ότι \
         ένας μια μία ένα έχει είχε αυτό κατά αλλά ως",
    ),
    (
        Language::Hindi,
        "के का की को में से है हैं था थे थी ने और या पर यह वह कि जो एक ये वे इस उस इन उन लिए साथ भी तो ही हो होता होती \
         होते हुआ हुई हुए कर करने किया गया गई गए जा रहा क्या कौन कब कहाँ कहां कैसे क्यों कितने कितना कितनी किस किसने \
         किसके किसकी किसे कौनसा द्वारा तक अपने नहीं जब",
    ),
    (
        Language::Hungarian,
        "a az és egy is hogy nem volt van voltak vannak mint de vagy meg ez azt ezt aki ami amely melyik milyen mi mit \
         ki kit mikor hol hová honnan hogyan miért mennyi hány csak már még el ki lehet által után között ha",
    ),
    (
        Language::Indonesian,
        "yang dan di ke dari dengan untuk pada dalam adalah ini itu oleh sebagai tidak atau juga akan telah sudah apa \
         siapa kapan mana dimana bagaimana mengapa berapa ada bisa dapat karena mereka ia dia kami saya anda tersebut",
    ),
    (
        Language::Italian,
        "il lo la i gli le l un uno una di del dello della dei degli delle d a al alla ai alle da dal dalla in nel nella \
         nei con su sul sulla per tra e ed o che chi cosa quale quali quando dove come perché quanto quanti quante è \
         sono era erano fu ha hanno aveva non si suo sua suoi più anche questo questa",
    ),
    (
        Language::Norwegian,
        "og i å at er en et ei den det de som på til av for med var har hadde ikke om fra ble blir men eller ved kan hva \
         hvem hvor når hvordan hvorfor hvilken hvilket hvilke seg sin etter også han hun jeg vi deres dette denne",
    ),
    (
        Language::Persian,
        "در از به که این آن را با است بود برای تا یک و یا هم می شد شده شود کرد کرده های ها بر هر چه چی کی کجا چگونه چرا \
         کدام چند آیا خود او آنها نیز اما باشد دارد داشت",
    ),
    (
        Language::Polish,
        "w we z ze i a o na do od po za przez przy dla pod nad jest są był była było były być się nie to ten ta te tego \
         tej tym że co kto kogo kiedy gdzie jak jaki jaka jakie który która które którzy których ile dlaczego czy ale \
         lub oraz jego jej ich jako także został",
    ),
    (
        Language::Portuguese,
        "o a os as um uma uns umas de do da dos das em no na nos nas e ou que quem qual quais quando onde como por porque \
         quanto quantos quantas é são era eram foi foram ser está tem têm não se seu sua seus suas para pelo pela com ao \
         à aos mais também ele ela isso este esta",
    ),
    (
        Language::Romanian,
        "și şi în in de la a al ale ai pe cu din pentru prin un o unui unei este sunt era erau fost fi că ce cine care \
         când unde cum cât câți câte câtă cărei cărui cui au avea nu se sa său sau mai după dar ca lui lor acest această \
         fiind dintre",
    ),
    (
        Language::Russian,
        "и в во на с со к ко о об от до из за по у для при не ни что кто кого кому кем чем чего когда где куда как какой \
         какая какое какие каких каким какую который которая которое которые почему сколько был была было были быть это \
         этот эта эти того тот то а но или его её ее их он она они я мы вы же бы ли так также",
    ),
    (
        Language::Spanish,
        "el la los las un una unos unas de del a al en y e o u que qué quien quién quiénes cual cuál cuáles cuando cuándo \
         donde dónde como cómo por para porque cuanto cuánto cuántos cuántas es son era eran fue fueron ser está han ha \
         había no se su sus lo le les con más pero también este esta entre",
    ),
    (
        Language::Swedish,
        "och i att är en ett den det de som på till av för med var har hade inte om från blev blir men eller vid kan vad \
         vem vilka vilken vilket var när hur varför sig sin efter också han hon jag vi deras detta denna",
    ),
    (
        Language::Tamil,
        "ஒரு மற்றும் இந்த அந்த என்று என்ற என எந்த என்ன யார் எப்போது எங்கே எப்படி ஏன் எத்தனை உள்ள இது அது இருந்து அவர் \
         போன்ற மேலும் வேண்டும் ஆகும் கொண்ட பற்றி வரை",
    ),
    (
        Language::Turkish,
        "ve bir bu şu o da de ile için olarak olan en çok daha ne kim kime kimin nerede nereye nereden nasıl neden niçin \
         hangi hangisi kaç ki mi mı mu mü gibi kadar sonra önce ise değil var yok idi olduğu oldu olduğunu tarafından \
         ya veya ancak",
    ),
    (
        Language::Ukrainian,
        "і й та в у на з із зі до від за по для при не що хто кого коли де куди як який яка яке які чому скільки був \
         була було були бути це цей ця ці той то а але або його її їх він вона вони ми ви ж би чи також є",
    ),
    (
        Language::Vietnamese,
        "là của và có các những được trong cho với một này đó khi ở đến bởi vì thì mà đã sẽ đang gì ai nào đâu bao nhiêu \
         cũng rằng bị",
    ),
];
